//! All workers of the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dynosim_wire::request::RequestServer;
use dynosim_worker::{Metrics, Several, System, Worker, WorkerConfig, engine_config};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::failure::Failure;
use crate::live::{Reached, Running};

/// Workers that run.
#[derive(Debug)]
pub(crate) struct Fleet {
    workers: Vec<Worker>,
    model_name: String,
    system: Arc<System>,
    grace: Duration,
}

impl Fleet {
    /// Starts the workers one after the other and waits until all of them can be found. Told to stop, it comes back with
    /// those that it has; if one fails, the others leave.
    pub(crate) async fn start(settings: Settings, stop: &CancellationToken) -> Result<Self, Failure> {
        let system = system(&settings).await?;
        let (model_name, grace) = (settings.model_name.clone(), settings.grace);
        let mut fleet = Self { workers: Vec::new(), model_name, system, grace };
        match fleet.fill(settings, stop).await {
            Ok(()) => Ok(fleet),
            Err(failure) => {
                Box::new(fleet).drain().await;
                Err(failure)
            }
        }
    }

    async fn fill(&mut self, settings: Settings, stop: &CancellationToken) -> Result<(), Failure> {
        let server = RequestServer::start(&settings.runtime).await.map_err(Failure::io)?;
        for (number, args) in settings.args.iter().enumerate() {
            let turn = tokio::time::sleep(settings.stagger.before(number));
            if stop.run_until_cancelled(turn).await.is_none() {
                return Ok(());
            }
            let engine = engine_config(args, number as u64, settings.timing.clone(), settings.cache_trace);
            let config = WorkerConfig {
                runtime: settings.runtime.clone(),
                server: Some(server.clone()),
                endpoint: settings.endpoint.clone(),
                args: args.clone(),
                engine,
                model: settings.model.clone(),
                model_name: settings.model_name.clone(),
                source_path: settings.source_path.clone(),
                replayed: settings.replayed.clone(),
                system: self.system.clone(),
                decision_log: settings.decision_log.as_deref().map(|path| log_of(path, number, settings.args.len())),
                cache_trace: settings.cache_trace,
            };
            self.workers.push(Worker::start(config).await.map_err(Failure::io)?);
        }
        for worker in &mut self.workers {
            match stop.run_until_cancelled(worker.ready()).await {
                Some(ready) => ready.map_err(Failure::io)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

async fn system(settings: &Settings) -> Result<Arc<System>, Failure> {
    let first = &settings.args[0];
    let several = Several { workers: settings.args.len() > 1, ranks: first.dp_size > 1 };
    let metrics = Metrics::new(first.engine_type, several).map_err(Failure::bug)?;
    match &settings.system {
        Some(config) => System::open(metrics, config).await.map_err(Failure::io),
        None => Ok(Arc::new(System::closed(metrics))),
    }
}

/// Each worker has a log of its own.
fn log_of(path: &Path, worker: usize, workers: usize) -> PathBuf {
    if workers == 1 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{worker}"));
    name.into()
}

impl Running for Fleet {
    fn describe(&self) -> String {
        let count = match self.workers.len() {
            1 => "1 worker".to_owned(),
            count => format!("{count} workers"),
        };
        let endpoint = self.workers.first().map(|worker| worker.endpoint().to_string()).unwrap_or_default();
        let port = match self.system.address() {
            Some(address) => format!(", system port http://{address}"),
            None => String::new(),
        };
        format!("mocker: {count} of `{}` at {endpoint}{port}", self.model_name)
    }

    fn drain(self: Box<Self>) -> Reached {
        Box::pin(async move {
            let mut drained: JoinSet<()> = self.workers.into_iter().map(|worker| worker.drain(self.grace)).collect();
            while drained.join_next().await.is_some() {}
        })
    }
}
