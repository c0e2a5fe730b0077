//! The image on a real cluster. Run by `make test`, which brings a node up; or against any cluster that `KUBECONFIG` names.

mod graphs;
mod image;
mod one_pod;
mod peers;
mod reports;
mod rolling;
mod scale;
mod shapes;
mod support;
