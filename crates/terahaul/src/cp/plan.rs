//! What is copied from where to where.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use terahaul_copy::operand::{Host, Operand, Remote};

use crate::exit::Failure;

/// Who copies.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    Copy(Direction),
    Send { sources: Vec<PathBuf>, to: String },
    Receive { link: String, to: PathBuf },
}

/// A copy without a depot.
#[derive(Debug, PartialEq, Eq)]
pub enum Direction {
    Local { sources: Vec<PathBuf>, to: PathBuf },
    Push { sources: Vec<PathBuf>, to: Remote },
    Pull { host: Host, paths: Vec<Vec<u8>>, to: PathBuf },
}

impl Direction {
    /// Sources that are folders, or may be, as they were written.
    pub fn folders(&self) -> Vec<&[u8]> {
        match self {
            Self::Local { sources, .. } | Self::Push { sources, .. } => {
                let is_folder =
                    |source: &&PathBuf| source.symlink_metadata().is_ok_and(|found| found.is_dir());
                sources.iter().filter(is_folder).map(|source| source.as_os_str().as_bytes()).collect()
            }
            Self::Pull { paths, .. } => paths.iter().map(Vec::as_slice).collect(),
        }
    }
}

impl Plan {
    pub fn of(arguments: &[OsString]) -> Result<Self, Failure> {
        let operands = arguments.iter().map(|text| Operand::parse(text)).collect::<Result<Vec<_>, _>>();
        let mut sources = operands.map_err(Failure::usage)?;
        let Some(to) = sources.pop().filter(|_| !sources.is_empty()) else {
            return Err(Failure::usage("give what to copy, and where to"));
        };
        if sources.iter().chain([&to]).any(|operand| matches!(operand, Operand::Depot(_))) {
            return with_depot(sources, to);
        }
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                Operand::Local(path) => local.push(path),
                Operand::Remote(source) => remote.push(source),
                Operand::Depot(_) => {}
            }
        }
        match to {
            Operand::Local(to) if remote.is_empty() => {
                Ok(Self::Copy(Direction::Local { sources: local, to }))
            }
            Operand::Remote(to) if remote.is_empty() => {
                Ok(Self::Copy(Direction::Push { sources: local, to }))
            }
            Operand::Local(to) if local.is_empty() => pull(remote, to).map(Self::Copy),
            Operand::Local(_) | Operand::Depot(_) => Err(Failure::usage(
                "sources are either all on this machine or all on one other: copy them in two commands",
            )),
            Operand::Remote(_) => Err(Failure::usage(
                "one end of a copy is this machine: run 'terahaul cp' on one of the two hosts, or copy through a folder here",
            )),
        }
    }
}

/// What is reached from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Another host, by ssh: something names one, or is meant to.
    Host,
    Depot,
    Nothing,
}

/// What these are about, whatever else is wrong with them.
pub fn reached(arguments: &[OsString]) -> Reached {
    let any = |is: fn(&OsStr) -> bool| arguments.iter().any(|argument| is(argument));
    if any(|argument| !matches!(Operand::parse(argument), Ok(Operand::Local(_) | Operand::Depot(_)))) {
        Reached::Host
    } else if any(|argument| matches!(Operand::parse(argument), Ok(Operand::Depot(_)))) {
        Reached::Depot
    } else {
        Reached::Nothing
    }
}

/// What `send` and `receive` do.
fn with_depot(sources: Vec<Operand>, to: Operand) -> Result<Plan, Failure> {
    match (sources.as_slice(), to) {
        ([Operand::Depot(link)], Operand::Local(to)) => Ok(Plan::Receive { link: link.clone(), to }),
        (sources, Operand::Depot(to)) => {
            let local = sources.iter().map(|source| match source {
                Operand::Local(path) => Some(path.clone()),
                Operand::Remote(_) | Operand::Depot(_) => None,
            });
            match local.collect() {
                Some(sources) => Ok(Plan::Send { sources, to }),
                None => Err(Failure::usage(
                    "what is sent to a depot is on this machine: run 'terahaul send' on the host that has it",
                )),
            }
        }
        _ => Err(Failure::usage(
            "a link is received into a folder of this machine, one at a time: terahaul cp LINK DIR",
        )),
    }
}

fn pull(sources: Vec<Remote>, to: PathBuf) -> Result<Direction, Failure> {
    let Some(host) = sources.first().map(|source| source.host.clone()) else {
        return Err(Failure::usage("give what to copy, and where to"));
    };
    if sources.iter().any(|source| source.host != host) {
        return Err(Failure::usage(
            "all sources are on one host: copy from each host in a command of its own",
        ));
    }
    Ok(Direction::Pull { host, paths: sources.into_iter().map(|source| source.path).collect(), to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan, Failure> {
        Plan::of(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_operands_decide_the_direction() {
        use Direction::{Local, Pull, Push};
        assert!(matches!(plan(&["a", "b"]), Ok(Plan::Copy(Local { .. }))));
        assert!(
            matches!(plan(&["a", "b", "h:c"]), Ok(Plan::Copy(Push { sources, .. })) if sources.len() == 2)
        );
        assert!(
            matches!(plan(&["a", "b", "https://x/"]), Ok(Plan::Send { sources, .. }) if sources.len() == 2)
        );
        assert!(matches!(plan(&["https://x/t/y#z", "a"]), Ok(Plan::Receive { .. })));
        assert!(matches!(plan(&["h:a", "h:b", "c"]), Ok(Plan::Copy(Pull { paths, .. })) if paths.len() == 2));
    }

    #[test]
    fn what_cannot_be_done_at_once_says_what_to_do_instead() {
        for (arguments, remedy) in [
            (&["h:a", "g:b"][..], "on one of the two hosts"),
            (&["h:a", "g:b", "c"], "a command of its own"),
            (&["h:a", "b", "c"], "two commands"),
            (&["h:a", "https://x/"], "terahaul send"),
            (&["https://x/", "h:a"], "into a folder of this machine"),
            (&["a"], "where to"),
        ] {
            let failure = plan(arguments).unwrap_err();
            assert!(failure.message.contains(remedy), "{}", failure.message);
        }
    }
}
