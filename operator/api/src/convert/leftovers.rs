//! What one version can say and the other cannot, as the difference between an object and the same object converted there
//! and back. It travels in an annotation of the converted object.
//!
//! A difference is a list of cells, each a place, what stands there without it and what with it. A cell is put back only if
//! what stands there is still what it was: whoever changes a field through the other version has the last word on it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Fields;

/// What a cell says something about, together with other cells.
pub(super) type Group = fn(&[String]) -> Vec<String>;

/// The difference between two objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Leftovers {
    /// The version whose fields these are.
    version: String,
    /// Places that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cells: Vec<Cell>,
    /// Lists whose items stand in another order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    orders: Vec<Order>,
}

/// A place that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cell {
    /// Fields from the outside in; an item of a list by its name.
    at: Vec<String>,
    /// What stands there after the way there and back; not given: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    from: Option<Value>,
    /// What stood there before.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    to: Option<Value>,
}

/// A list of items with names whose order differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    /// As of a cell.
    at: Vec<String>,
    /// The names in order.
    names: Vec<String>,
}

/// A `null` that is there, other than a value that is not.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Leftovers {
    /// What makes `from` to `to`, both of `version`; none if they are equal.
    pub(super) fn between(version: &str, from: &Fields, to: &Fields) -> Option<Self> {
        let mut found = Self { version: version.to_owned(), ..Self::default() };
        found.compare_fields(&mut Vec::new(), from, to);
        (!found.cells.is_empty() || !found.orders.is_empty()).then_some(found)
    }

    /// From the text of an annotation; none if it holds none of `version`.
    pub(super) fn read(text: &str, version: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|found: &Self| found.version == version)
    }

    /// As the text of an annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("text keys")
    }

    /// Puts back what still fits. Cells that `group` gives the same key say one thing together: all fit, or none does.
    pub(super) fn put_back(&self, object: &mut Fields, group: Group) {
        for cells in self.fitting(object, group) {
            put_all(&cells, object);
        }
        self.reorder(object);
    }

    /// The same, but leaves out what `image` would show: what it shows is in `given`, and nothing may change it.
    pub(super) fn put_back_unseen(
        &self,
        object: &mut Fields,
        group: Group,
        image: fn(Fields) -> Fields,
        given: &Fields,
    ) {
        let mut all = object.clone();
        self.put_back(&mut all, group);
        if image(all.clone()) == *given {
            *object = all;
            return;
        }
        let seen = image(object.clone());
        for cells in self.fitting(object, group) {
            let mut with = object.clone();
            put_all(&cells, &mut with);
            if image(with.clone()) == seen {
                *object = with;
            }
        }
        self.reorder(object);
    }

    /// The groups whose cells all fit.
    fn fitting(&self, object: &Fields, group: Group) -> Vec<Vec<&Cell>> {
        let mut groups: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
        for cell in &self.cells {
            groups.entry(group(&cell.at)).or_default().push(cell);
        }
        groups.into_values().filter(|cells| cells.iter().all(|cell| cell.fits(object))).collect()
    }

    fn reorder(&self, object: &mut Fields) {
        for order in &self.orders {
            if let Some(Value::Array(items)) = find(object, &order.at) {
                let rank = |item: &Value| order.names.iter().position(|wanted| name(item) == Some(wanted));
                // What has no place in the order stays behind the rest.
                items.sort_by_key(|item| rank(item).unwrap_or(usize::MAX));
            }
        }
    }

    fn compare_fields(&mut self, at: &mut Vec<String>, from: &Fields, to: &Fields) {
        let keys: BTreeSet<_> = from.keys().chain(to.keys()).collect();
        for key in keys {
            at.push(key.clone());
            self.compare(at, from.get(key), to.get(key));
            at.pop();
        }
    }

    fn compare(&mut self, at: &mut Vec<String>, from: Option<&Value>, to: Option<&Value>) {
        match (from, to) {
            _ if from == to => {}
            (Some(Value::Object(from)), Some(Value::Object(to))) => self.compare_fields(at, from, to),
            (Some(Value::Array(from_items)), Some(Value::Array(to_items))) => {
                match (names(from_items), names(to_items)) {
                    (Some(from), Some(to)) => self.compare_items(at, (&from, from_items), (&to, to_items)),
                    _ => self.cell(at, from, to),
                }
            }
            _ => self.cell(at, from, to),
        }
    }

    fn cell(&mut self, at: &[String], from: Option<&Value>, to: Option<&Value>) {
        self.cells.push(Cell { at: at.to_vec(), from: from.cloned(), to: to.cloned() });
    }

    /// Lists of items with names, both with their names.
    fn compare_items(&mut self, at: &mut Vec<String>, from: (&[&str], &[Value]), to: (&[&str], &[Value])) {
        let item = |(names, items): (&[&str], &'_ [Value]), name: &str| {
            names.iter().position(|other| *other == name).map(|index| items[index].clone())
        };
        let kept = from.0.iter().filter(|name| to.0.contains(name));
        let added = to.0.iter().filter(|name| !from.0.contains(name));
        let after: Vec<_> = kept.chain(added).copied().collect();
        let removed = from.0.iter().filter(|name| !to.0.contains(name));
        for name in removed.copied().chain(after.iter().copied()) {
            at.push(name.to_owned());
            self.compare(at, item(from, name).as_ref(), item(to, name).as_ref());
            at.pop();
        }
        if after != to.0 {
            self.orders.push(Order { at: at.clone(), names: to.0.iter().map(|name| (*name).to_owned()).collect() });
        }
    }
}

impl Cell {
    /// The place is there, and holds what it held.
    fn fits(&self, object: &Fields) -> bool {
        let Some((last, parents)) = self.at.split_last() else { return false };
        let Some((first, rest)) = parents.split_first() else { return object.get(last) == self.from.as_ref() };
        let place = object.get(first).and_then(|value| rest.iter().try_fold(value, |value, step| inner(value, step)));
        place.is_some_and(|place| (place.is_object() || place.is_array()) && inner(place, last) == self.from.as_ref())
    }

    fn put(&self, object: &mut Fields) {
        let Some((last, parents)) = self.at.split_last() else { return };
        let fields = match parents {
            [] => object,
            _ => match find(object, parents) {
                Some(Value::Object(fields)) => fields,
                Some(Value::Array(items)) => return put_item(items, last, self.to.as_ref()),
                _ => return,
            },
        };
        match &self.to {
            Some(value) => fields.insert(last.clone(), value.clone()),
            None => fields.remove(last),
        };
    }
}

fn put_all(cells: &[&Cell], object: &mut Fields) {
    for cell in cells {
        cell.put(object);
    }
}

/// A field of an object, or the item of a list with this name.
fn inner<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.iter().find(|item| name(item) == Some(step)),
        _ => None,
    }
}

fn put_item(items: &mut Vec<Value>, wanted: &str, to: Option<&Value>) {
    let place = items.iter().position(|item| name(item) == Some(wanted));
    match (place, to) {
        (Some(index), Some(value)) => items[index] = value.clone(),
        (Some(index), None) => drop(items.remove(index)),
        (None, Some(value)) => items.push(value.clone()),
        (None, None) => {}
    }
}

fn find<'a>(object: &'a mut Fields, at: &[String]) -> Option<&'a mut Value> {
    let (first, rest) = at.split_first()?;
    rest.iter().try_fold(object.get_mut(first)?, |value, step| match value {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(items) => items.iter_mut().find(|item| name(item) == Some(step)),
        _ => None,
    })
}

fn name(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

/// The names of a list of items that all have one, each another; none of other lists.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<_> = items.iter().map(name).collect::<Option<_>>()?;
    let different: BTreeSet<_> = names.iter().collect();
    (!names.is_empty() && different.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        let Value::Object(fields) = value else { panic!("an object") };
        fields
    }

    fn whole(at: &[String]) -> Vec<String> {
        at.iter().take(1).cloned().collect()
    }

    #[test]
    fn what_is_equal_leaves_nothing_over() {
        let object = fields(json!({"a": {"b": [{"name": "x"}]}}));
        assert_eq!(Leftovers::between("v1", &object, &object), None);
    }

    #[test]
    fn lists_of_named_items_differ_by_item_and_order() {
        let from = fields(json!({"l": [{"name": "a", "v": 1}, {"name": "b", "v": 2}, {"name": "c"}]}));
        let to = fields(json!({"l": [{"name": "d"}, {"name": "b", "v": null}, {"name": "a", "v": 1}]}));
        let left = Leftovers::between("v1", &from, &to).expect("differs");
        assert_eq!(
            serde_json::to_value(&left).expect("JSON"),
            json!({
                "version": "v1",
                "cells": [
                    {"at": ["l", "c"], "from": {"name": "c"}},
                    {"at": ["l", "b", "v"], "from": 2, "to": null},
                    {"at": ["l", "d"], "to": {"name": "d"}},
                ],
                "orders": [{"at": ["l"], "names": ["d", "b", "a"]}],
            })
        );
        let mut object = from;
        Leftovers::read(&left.text(), "v1").expect("reads back").put_back(&mut object, whole);
        assert_eq!(object, to);
        assert_eq!(Leftovers::read(&left.text(), "v2"), None);
    }

    #[test]
    fn what_was_changed_meanwhile_is_not_put_back_nor_what_belongs_to_it() {
        let from = fields(json!({"a": {"x": 1, "y": 1}, "b": {"x": 1}}));
        let to = fields(json!({"a": {"x": 2}, "b": {"x": 2}}));
        let left = Leftovers::between("v1", &from, &to).expect("differs");
        let mut changed = fields(json!({"a": {"x": 1, "y": 3}, "b": {"x": 1}}));
        left.put_back(&mut changed, whole);
        assert_eq!(changed, fields(json!({"a": {"x": 1, "y": 3}, "b": {"x": 2}})));
    }
}
