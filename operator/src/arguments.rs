//! What the program is started with.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};

/// Runs serving graphs on a Kubernetes cluster: a DynamoGraphDeployment becomes pods of simulated workers.
#[derive(Clone, Debug, Parser)]
#[command(name = "dynosim-operator", version)]
pub struct Arguments {
    /// File with the settings that graphs are built by, in YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Only look after the graphs of this namespace, and keep an operator of the whole cluster away from them
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// How long other operators keep away from `--namespace` after this one was last heard of, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub namespace_lease_duration: Duration,
    /// How often that is renewed, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub namespace_lease_renew_interval: Duration,
    /// The namespace that this operator runs in: its leases, certificates and services are there
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "dynosim-system")]
    pub own_namespace: String,
    /// Name of this process among all that want to lead [default: the machine's name and a number]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
    /// Act only while no other operator of the same lease does
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub leader_elect: bool,
    /// Name of the lease of the one that acts
    #[arg(long, value_name = "NAME", default_value = "dynosim-operator")]
    pub leader_election_id: String,
    /// Address of `/healthz` and `/readyz`
    #[arg(long, value_name = "ADDRESS", default_value_t = any(8081))]
    pub health_addr: SocketAddr,
    /// Address of `/metrics`
    #[arg(long, value_name = "ADDRESS", default_value_t = any(8080))]
    pub metrics_addr: SocketAddr,
    /// Answer the API server's webhooks, and register for conversion
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub webhooks: bool,
    /// Address of the webhooks
    #[arg(long, value_name = "ADDRESS", default_value_t = any(9443))]
    pub webhook_addr: SocketAddr,
    /// Service that leads to the webhooks
    #[arg(long, value_name = "NAME", default_value = "dynosim-webhook")]
    pub webhook_service: String,
    /// Name of the webhook configurations, validating and mutating, that get the certificate's authority
    #[arg(long, value_name = "NAME", default_value = "dynosim-webhook")]
    pub webhook_configuration: String,
    /// Secret with the webhooks' certificate, made and renewed by the operator
    #[arg(long, value_name = "NAME", default_value = "webhook-server-cert")]
    pub webhook_secret: String,
    /// Folder with `tls.crt`, `tls.key` and `ca.crt` that others make and renew, in place of the secret
    #[arg(long, value_name = "FOLDER")]
    pub webhook_cert_dir: Option<PathBuf>,
    /// How the log is written, to standard error; `RUST_LOG` says how much of it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Print what the operator's account may not do that it has to, and end
    #[arg(long)]
    pub check: bool,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

fn any(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err("a number of seconds from 1 to 86400 is needed".to_owned()),
    }
}
