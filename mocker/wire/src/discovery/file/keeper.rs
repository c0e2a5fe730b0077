//! The thread of one handle: it alone touches the folder, so no file call ever holds up the runtime.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::folder::Folder;
use super::notice::Notice;
use super::own::{Own, make_folders};
use crate::discovery::view::Views;
use crate::discovery::{Bucket, Key};
use crate::time;

/// How often folders are looked at even if the system says nothing; also how late a touch may be noticed.
const POLL: Duration = Duration::from_secs(1);
/// As above where the system cannot tell of changes.
const POLL_UNTOLD: Duration = Duration::from_millis(100);
/// How often own records are touched at least.
const KEEP_ALIVE_FLOOR: Duration = Duration::from_secs(1);

/// What the thread is asked for.
#[derive(Debug)]
pub(super) enum Command {
    Put(Key, Vec<u8>, oneshot::Sender<io::Result<()>>),
    Remove(Key, oneshot::Sender<io::Result<()>>),
    /// Begin to read the folders.
    Watch,
    /// The system says that something has changed.
    Changed,
    /// Remove all own records and end.
    Close(oneshot::Sender<io::Result<()>>),
}

#[derive(Debug)]
pub(super) struct Keeper {
    root: PathBuf,
    ttl: Duration,
    own: Own,
    views: Arc<Views>,
    touched: Instant,
    reading: Option<Reading>,
}

/// State of a handle that watches.
#[derive(Debug)]
struct Reading {
    folders: Vec<Folder>,
    notice: Option<Notice>,
    /// A [`Command::Changed`] is under way already.
    told: Arc<AtomicBool>,
    next_scan: Instant,
}

impl Keeper {
    pub(super) fn new(root: &Path, ttl: Duration, instance_id: u64, views: Arc<Views>) -> Self {
        let own = Own::new(root, instance_id);
        Self { root: root.to_owned(), ttl, own, views, touched: time::now(), reading: None }
    }

    /// Ends when closed or when the handle was dropped; own records are gone then.
    pub(super) fn run(mut self, commands: &Receiver<Command>, sender: &mpsc::Sender<Command>) {
        loop {
            let wait = self.next_wake().saturating_duration_since(time::now());
            match commands.recv_timeout(wait) {
                Ok(Command::Close(reply)) => {
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(self.own.clear());
                    return;
                }
                Ok(command) => self.obey(command, sender),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.keep_alive();
            self.scan();
        }
    }

    /// A third of the life of a record, but not below a second unless it would be dead by then.
    fn keep_alive_period(&self) -> Duration {
        (self.ttl / 3).max(KEEP_ALIVE_FLOOR.min(self.ttl / 2))
    }

    fn next_wake(&self) -> Instant {
        let touch = self.touched + self.keep_alive_period();
        self.reading.as_ref().map_or(touch, |reading| touch.min(reading.next_scan))
    }

    fn obey(&mut self, command: Command, sender: &Sender<Command>) {
        match command {
            // Replies: whoever asked may have stopped waiting.
            Command::Put(key, value, reply) => {
                let _ = reply.send(self.own.put(key, value));
            }
            Command::Remove(key, reply) => {
                let _ = reply.send(self.own.remove(&key));
            }
            Command::Watch => self.begin_reading(sender),
            Command::Changed => {
                if let Some(reading) = &mut self.reading {
                    reading.told.store(false, Ordering::Release);
                    reading.next_scan = time::now();
                }
            }
            Command::Close(_) => {}
        }
    }

    fn begin_reading(&mut self, sender: &Sender<Command>) {
        if self.reading.is_some() {
            return;
        }
        let told = Arc::new(AtomicBool::new(false));
        let (sender, once) = (sender.clone(), Arc::clone(&told));
        let notice = Notice::new(&self.root, move || {
            if !once.swap(true, Ordering::AcqRel) {
                // If the thread has ended, nobody needs to know.
                let _ = sender.send(Command::Changed);
            }
        });
        let folders = Bucket::ALL.map(|bucket| Folder::new(&self.root, bucket, self.ttl)).into();
        self.reading = Some(Reading { folders, notice, told, next_scan: time::now() });
    }

    fn keep_alive(&mut self) {
        let now = time::now();
        if now >= self.touched + self.keep_alive_period() {
            self.touched = now;
            self.own.keep_alive();
        }
    }

    fn scan(&mut self) {
        let Some(reading) = &mut self.reading else { return };
        let begin = time::now();
        if begin < reading.next_scan {
            return;
        }
        // The old folders are looked at before new ones take their place, so that their loss is seen.
        let mut next = reading.scan(&self.views);
        if reading.renew(&self.root) {
            self.own.restore();
            next = next.min(reading.scan(&self.views));
        }
        // Reading takes at most half of the time, however fast things change.
        let end = time::now();
        reading.next_scan = next.max(end + (end - begin));
    }
}

impl Reading {
    fn scan(&mut self, views: &Views) -> Instant {
        let poll = if self.notice.is_some() { POLL } else { POLL_UNTOLD };
        let due = self.folders.iter_mut().filter_map(|folder| folder.scan(views)).min();
        let poll = time::now() + poll;
        due.map_or(poll, |due| due.min(poll))
    }

    /// Makes folders that are missing and watches them. True if any is new.
    fn renew(&mut self, root: &Path) -> bool {
        if let Err(error) = make_folders(root) {
            tracing::warn!(root = %root.display(), %error, "cannot make the discovery folders");
        }
        self.notice.as_mut().is_some_and(Notice::renew)
    }
}
