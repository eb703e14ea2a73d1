//! Processes that cannot outlive the lab, and what they cost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::PeerError;
use crate::Namespace;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How soon a user who wants to stop is heard.
pub(crate) const ATTENTION: Duration = Duration::from_millis(50);

/// A command that runs in `namespace` and ends with the lab, together with everything that it starts.
///
/// It is the first process of a process namespace of its own, which the kernel empties when that process ends; and
/// the kernel ends it when the lab's thread that started it does, be it by a crash.
pub fn confined(namespace: &Namespace, program: &Path) -> Command {
    let mut command = namespace.command("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL", "--"]);
    // The shell is the first process, because some programs (vsftpd) fall over children that are not theirs.
    command.args(["sh", "-c", r#""$@"; exit $?"#, "sh"]).arg(program);
    command
}

/// Tells a command made by [`confined`] to end, with all that it has started.
pub(crate) fn end_process(process: u32) {
    // What unshare has started is the first process of the namespace. Once that is gone, so is unshare, and not before
    // the kernel has ended all the others.
    Family::read().children_of(process).for_each(kill);
}

/// Ends one process.
pub(crate) fn kill(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Waits for the end of `child` and what it wrote on its pipes; `end` is to end it once `stop` is true.
pub(crate) fn output_unless(stop: &AtomicBool, child: Child, end: impl Fn(u32)) -> io::Result<Output> {
    let process = child.id();
    let (ended, output) = channel();
    // Waiting has a thread of its own, because nothing in the standard library waits with a time limit.
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    loop {
        match output.recv_timeout(ATTENTION) {
            Ok(output) => return output,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => end(process),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Ends a command made by [`confined`] and waits for that.
fn end(child: &mut Child) {
    end_process(child.id());
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A server that runs. Dropping it ends it with all its processes and waits for that.
#[derive(Debug)]
pub struct Server {
    peer: &'static str,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a server in `namespace`; what it says goes into `log`.
    pub fn start(
        peer: &'static str,
        namespace: &Namespace,
        program: &Path,
        args: &[&str],
        log: &Path,
    ) -> Result<Self, PeerError> {
        let output = fs::File::create(log).map_err(PeerError::file("created", log))?;
        let errors = output.try_clone().map_err(PeerError::file("opened", log))?;
        let child = confined(namespace, program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(PeerError::file("started", program))?;
        Ok(Self { peer, child, log: log.to_owned() })
    }

    /// Returns when the server listens on `address` of `namespace`, where it runs. Each peer has a port of its own, so
    /// nothing else can answer there.
    pub fn wait_until_it_listens(
        &mut self,
        namespace: &Namespace,
        address: SocketAddr,
    ) -> Result<(), PeerError> {
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok();
        self.wait_until(address, |_| namespace.enter(connect).ok().flatten().map(drop))
    }

    /// Returns what `ready` finds, which is asked again until it finds something, the server ends, or it has been too
    /// long.
    pub fn wait_until<T>(
        &mut self,
        address: SocketAddr,
        mut ready: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, PeerError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if !ended && let Some(found) = ready(self) {
                return Ok(found);
            }
            if ended || Instant::now() > deadline {
                return Err(PeerError::NotReady { peer: self.peer, address, said: last_lines(&self.log) });
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    /// What it has written so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Processor seconds of all its processes so far.
    pub fn processor_seconds(&self) -> f64 {
        processor_seconds_below(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The end of a log, as one line.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() { "it said nothing".to_owned() } else { last.chars().take(600).collect() }
}

/// A path, or another text, as a word of a shell's command line.
pub fn quoted(word: impl AsRef<Path>) -> String {
    let text = word.as_ref().display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Processor seconds of a process, of all that it has started, and of those of them that have ended.
pub fn processor_seconds_below(process: u32) -> f64 {
    let family = Family::read();
    let mut ticks = 0;
    let mut waiting = vec![process];
    while let Some(process) = waiting.pop() {
        ticks += family.ticks_of(process);
        waiting.extend(family.children_of(process));
    }
    ticks as f64 / ticks_per_second()
}

/// Processor seconds of this process's ended children.
pub fn processor_seconds_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    stat.and_then(|stat| Status::parse(&stat)).map_or(0.0, |status| status.ended as f64 / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Who has started whom, and what it has cost.
struct Family(BTreeMap<u32, Status>);

struct Status {
    parent: u32,
    own: u64,
    /// Of children that have ended.
    ended: u64,
}

impl Family {
    fn read() -> Self {
        let read = || -> io::Result<BTreeMap<u32, Status>> {
            let mut all = BTreeMap::new();
            for entry in fs::read_dir("/proc")? {
                let name = entry?.file_name();
                let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
                // A process may end between the listing and this.
                let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
                if let Some(status) = Status::parse(&stat) {
                    all.insert(process, status);
                }
            }
            Ok(all)
        };
        Self(read().unwrap_or_default())
    }

    fn children_of(&self, process: u32) -> impl Iterator<Item = u32> {
        self.0.iter().filter(move |(_, status)| status.parent == process).map(|(child, _)| *child)
    }

    fn ticks_of(&self, process: u32) -> u64 {
        self.0.get(&process).map_or(0, |status| status.own + status.ended)
    }
}

impl Status {
    /// From a line of `/proc/PID/stat`; the name in parentheses may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            own: number(11)? + number(12)?,
            ended: number(13)? + number(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_confuse_its_cost() {
        let stat = "12 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 50 60 70 80 20 0 1 0 5 6 7";
        let status = Status::parse(stat).unwrap();
        assert_eq!((status.parent, status.own, status.ended), (7, 110, 150));
    }

    #[test]
    fn paths_become_one_word() {
        assert_eq!(quoted("/dev/shm/a-1"), "/dev/shm/a-1");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
