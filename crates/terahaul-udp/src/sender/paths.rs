//! Several paths of one session: which of them takes the next bytes, and what becomes of those of a path that went dark.
//!
//! Each path has its own rate, and takes what comes next whenever that lets it send. So their rates add up, and nothing is
//! divided beforehand. Two things need more than that:
//!
//! - **The end.** The last bytes on a slow path would be waited for. While a quicker path would have all that is left at the
//!   other end sooner, the slower one leaves it to that (earliest completion first: Lim, Nahum, Towsley and Gibbens, 2017).
//!   And what is under way is sent once more by whichever path has the copy there early enough ([`super::endgame`]).
//! - **A path that goes dark.** It is told from a receiver that fell silent by the others:
//!
//! | nothing is reported of a path, and | then |
//! |---|---|
//! | its probe is due | it sends old bytes again, and the others ask for a report |
//! | the answer to that is overdue, too, and packets sent later on another path arrive | its channels are silent, and their packets go over the others |
//! | one of its pings is reported | it takes part again |

use terahaul_wire::packet::ChannelNumber;

use super::channel::{Channel, ChannelState};
use super::flight::Load;
use super::route::Route;
use super::{Sender, SenderEvent};
use crate::{PathIndex, Time};

impl Sender {
    /// After reports: round trips have changed.
    pub(super) fn sort_paths(&mut self) {
        let routes = &self.routes;
        self.by_speed.sort_by_key(|path| (!routes[*path].is_heard(), routes[*path].round_trip.smoothed()));
    }

    /// A path is silent: on the others it is asked whether anybody is there. They may have nothing to say at the end.
    pub(super) fn ask_on_others(&mut self, silent: PathIndex) {
        for (path, route) in self.routes.enumerate_mut() {
            if path != silent {
                route.probes = route.probes.max(1);
            }
        }
    }

    /// Whether there is something that this path would send now.
    pub(super) fn has_work_for(&self, path: PathIndex) -> bool {
        match self.outgoing.is_drained() {
            true => self.endgame.has_more(path, self.routes[path].payload()),
            false => !self.leaves_the_rest(path),
        }
    }

    /// Whether another path has all that is left at the other end before this one would have the next of it there.
    pub(super) fn leaves_the_rest(&self, path: PathIndex) -> bool {
        if !self.last || self.routes.len() == 1 || self.outgoing.is_drained() {
            return false;
        }
        let here = self.routes[path].round_trip.smoothed().as_secs_f64() / 2.0;
        let left = self.outgoing.waiting() as f64;
        self.by_speed.iter().any(|other| {
            let route = &self.routes[*other];
            let there = route.round_trip.smoothed().as_secs_f64() / 2.0 + left / route.rate();
            *other != path && there < here && route.is_heard() && self.can_send(*other)
        })
    }

    /// Packets of which the report should come after this are worth a copy on this path: it would be there before what is
    /// sent again once the loss is known.
    pub(super) fn copies_from(&self, now: Time, path: PathIndex) -> Time {
        let quickest = self.by_speed.first().map_or(path, |path| *path);
        now + self.routes[path].round_trip.smoothed() - self.routes[quickest].round_trip.smoothed() * 3 / 4
    }

    /// When a path counts as dark, if it is silent while others carry what was sent later.
    pub(super) fn dark_at(&self, path: PathIndex) -> Option<Time> {
        let route = &self.routes[path];
        let since = route.silent_since()?;
        let newest = self.routes.iter().filter_map(Route::newest_arrived).max();
        // One of which no channel carries anything may be far slower than was thought: its pings are waited for.
        let carries = |channel: &Channel| channel.path == path && channel.state != ChannelState::Silent;
        (newest >= Some(since) && self.channels.iter().any(carries))
            .then(|| since + route.round_trip.smoothed() * 5 / 4)
    }

    /// Gives up the paths that are dark.
    pub(super) fn detect_dark(&mut self, now: Time) {
        for path in self.routes.numbers() {
            if self.dark_at(path).is_none_or(|at| now < at) {
                continue;
            }
            self.routes[path].handle_dark(now);
            for at in self.channels.numbers() {
                if self.channels[at].path == path {
                    self.fall_silent(now, at);
                    self.give_up(at, Time::NEVER);
                }
            }
        }
    }

    /// A channel carries nothing but pings from now on.
    pub(super) fn fall_silent(&mut self, now: Time, at: ChannelNumber) {
        let channel = &mut self.channels[at];
        if channel.state == ChannelState::Silent {
            return;
        }
        channel.state = ChannelState::Silent;
        channel.ping_at = now;
        channel.pings = 0;
        self.events.push_back(SenderEvent::Channel(at, ChannelState::Silent));
    }

    /// What a channel has under way and was sent before `before` goes out again.
    pub(super) fn give_up(&mut self, at: ChannelNumber, before: Time) {
        let path = self.channels[at].path;
        let mut lost = std::mem::take(&mut self.lost_now);
        self.channels[at].flight.give_up(before, |sent| lost.push(sent));
        for sent in lost.drain(..) {
            let route = &mut self.routes[path];
            route.handle_lost(&sent, false);
            match sent.load {
                Load::Data(segment) => self.send_again(path, segment),
                Load::MtuProbe => route.mtu.handle_probe_lost(sent.len),
                Load::Signal => {}
            }
        }
        self.lost_now = lost;
    }
}
