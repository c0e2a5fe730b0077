//! Records in a folder that processes of one machine share.
//!
//! ```text
//! root/v1/instances/dynamo%2Fbackend%2Fgenerate%2F1a2b      one file per record, its content is the record
//!     └── bucket ──┘└── path, letters and digits as they are ──┘
//! ```
//! A file whose time of modification is older than the time to live belongs to a dead process.

mod folder;
mod identity;
mod keeper;
mod name;
mod notice;
mod own;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::orders::closed;
use super::view::Views;
use super::{Backend, Bucket, DiscoveryError, Done, Key, Record, Watch, random_id};
use keeper::{Command, Keeper};

/// Stack of the thread that does the file work; it recurses nowhere.
const STACK_BYTES: usize = 256 * 1024;

/// One handle on a folder.
#[derive(Debug)]
pub(crate) struct FileBackend {
    root: PathBuf,
    instance_id: u64,
    commands: mpsc::Sender<Command>,
    views: Arc<Views>,
    runtime: Handle,
    closed: CancellationToken,
}

impl FileBackend {
    /// Makes the folders that are missing.
    pub(crate) async fn open(root: &Path, ttl: Duration) -> Result<Self, DiscoveryError> {
        let made = {
            let root = root.to_owned();
            tokio::task::spawn_blocking(move || own::make_folders(&root)).await
        };
        made.map_err(io::Error::other).flatten().map_err(|source| file_error(root, source))?;
        let (instance_id, views) = (random_id(), Arc::new(Views::default()));
        let (commands, received) = mpsc::channel();
        let keeper = Keeper::new(root, ttl, instance_id, Arc::clone(&views));
        let sender = commands.clone();
        std::thread::Builder::new()
            .name("discovery".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || keeper.run(&received, &sender))
            .map_err(|source| file_error(root, source))?;
        let (runtime, closed) = (Handle::current(), CancellationToken::new());
        Ok(Self { root: root.to_owned(), instance_id, commands, views, runtime, closed })
    }

    /// Has the thread do something that it answers.
    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Command,
    ) -> Result<(), DiscoveryError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| DiscoveryError::Closed)?;
        answer.await.map_err(|_| DiscoveryError::Closed)?.map_err(|source| file_error(&self.root, source))
    }
}

fn file_error(root: &Path, source: io::Error) -> DiscoveryError {
    DiscoveryError::File { path: root.display().to_string(), source }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        self.closed.cancel();
        // The thread removes the records and ends; if it has ended already, they are gone.
        let _ = self.commands.send(Command::Close(oneshot::channel().0));
    }
}

impl Backend for FileBackend {
    fn instance_id(&self) -> u64 {
        self.instance_id
    }

    fn put<'a>(&'a self, records: &'a [(Key, &'a Record)]) -> Done<'a, ()> {
        Box::pin(async move {
            for (key, record) in records {
                let value = record.to_json()?;
                self.ask(|reply| Command::Put(key.clone(), value, reply)).await?;
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Done<'a, ()> {
        Box::pin(self.ask(|reply| Command::Remove(key.clone(), reply)))
    }

    fn watch(&self, bucket: Bucket, prefix: &str) -> Watch {
        // After closing, the watch ends at once.
        let _ = self.commands.send(Command::Watch);
        self.views.watch(bucket, prefix, &self.runtime, self.closed.clone())
    }

    fn close(&self) -> Done<'_, ()> {
        Box::pin(async move {
            self.closed.cancel();
            closed(self.ask(Command::Close).await)
        })
    }
}
