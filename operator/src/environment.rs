//! Environment of a container from lists of different weight.

use std::collections::BTreeMap;

use dynosim_api::expand::{expand, references};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

/// A variable with a value.
pub fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), ..EnvVar::default() }
}

/// A variable with a field of the pod.
pub fn field(name: &str, path: &str) -> EnvVar {
    let selector = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

/// All variables by name; of one name, that of the last list counts, and the last one within a list.
///
/// The order is that of the names, so that it says nothing about where a variable came from, except that a variable stands
/// after those that its value refers to: Kubernetes replaces `$(NAME)` only by what it has read before.
pub fn merge(lists: &[&[EnvVar]]) -> Vec<EnvVar> {
    let mut named = BTreeMap::new();
    for variable in lists.iter().copied().flatten() {
        named.insert(variable.name.as_str(), variable);
    }
    let mut placed = Vec::with_capacity(named.len());
    let mut open: BTreeMap<_, _> = named.clone();
    for name in named.keys() {
        place(name, &mut open, &mut placed);
    }
    placed
}

/// Puts a variable after what it refers to. References in a circle end where they meet themselves.
fn place(name: &str, open: &mut BTreeMap<&str, &EnvVar>, placed: &mut Vec<EnvVar>) {
    let Some(variable) = open.remove(name) else { return };
    for other in references(variable.value.as_deref().unwrap_or_default()) {
        place(other, open, placed);
    }
    placed.push(variable.clone());
}

/// The variables whose values are known before a pod runs.
pub fn known(variables: &[EnvVar]) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for variable in variables.iter().filter(|variable| variable.value_from.is_none()) {
        let value = expand(variable.value.as_deref().unwrap_or_default(), &known);
        known.insert(variable.name.clone(), value);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<EnvVar> {
        let one = |text: &str| text.split_once('=').map(|(name, value)| variable(name, value));
        text.split_whitespace().filter_map(one).collect()
    }

    fn merged(lists: &[&str]) -> String {
        let lists: Vec<_> = lists.iter().map(|text| list(text)).collect();
        let lists: Vec<_> = lists.iter().map(Vec::as_slice).collect();
        let shown = |variable: &EnvVar| format!("{}={}", variable.name, variable.value.as_deref().unwrap_or_default());
        merge(&lists).iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_last_list_wins_and_the_order_is_that_of_names() {
        assert_eq!(merged(&["B=1 A=1 D=1 C=1", "B=2 C=2 D=2", "C=3 D=3", "D=4"]), "A=1 B=2 C=3 D=4");
        assert_eq!(merged(&["A=1 A=2"]), "A=2");
        assert_eq!(merged(&[]), "");
    }

    #[test]
    fn variables_stand_after_those_that_they_refer_to() {
        assert_eq!(merged(&["A=$(Z):$(M) B=1 M=$(Z) Z=0"]), "Z=0 M=$(Z) A=$(Z):$(M) B=1");
        assert_eq!(merged(&["A=$(B) B=$(A) C=$(C)"]), "B=$(A) A=$(B) C=$(C)");
        assert_eq!(merged(&["A=$$(Z) Z=0"]), "A=$$(Z) Z=0");
    }

    #[test]
    fn values_are_known_unless_the_pod_gives_them() {
        let mut variables = list("A=1 B=$(A)2");
        variables.push(field("C", "status.podIP"));
        let known = known(&variables);
        assert_eq!(known["B"], "12");
        assert!(!known.contains_key("C"));
    }
}
