use super::*;

// Where a session begins is all that is asked of the clock.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

const MB: u64 = 1_000_000;

/// A path on which TCP carries `tcp` and UDP `udp` bytes a second when alone, half of it together; UDP from second `heard` on.
#[derive(Clone, Copy)]
struct Path {
    tcp: u64,
    udp: u64,
    heard: u64,
    /// From when until when datagrams are lost, and from when until when everything is.
    filtered: [(u64, u64); 2],
    /// The server takes offers while the session runs.
    takes_offers: bool,
    dark: (u64, u64),
    priority: Priority,
    left: u64,
    /// Tenths of a second that TCP's channels take to open again, and the bytes that their sockets take at once.
    opens: u64,
    sockets: u64,
}

const NEVER: (u64, u64) = (u64::MAX / 10, u64::MAX / 10);

const OPEN: Path = Path {
    tcp: MB,
    udp: MB,
    heard: 1,
    filtered: [NEVER; 2],
    takes_offers: false,
    dark: NEVER,
    priority: Priority::Fair,
    left: 0,
    opens: 0,
    sockets: 0,
};

/// Runs 40 seconds, as [`long_session`].
fn session(path: Path) -> (Vec<Act>, Carrier) {
    long_session(path, 40)
}

/// Runs so many seconds, TCP's last blocks taking one of them, and returns what was done and what the way is at the end.
fn long_session(path: Path, seconds: u64) -> (Vec<Act>, Carrier) {
    let (acts, by) = timed_session(path, seconds);
    (acts.into_iter().map(|(_, act)| act).collect(), by)
}

/// The same, with the tenth of a second at which each thing was done.
fn timed_session(path: Path, seconds: u64) -> (Vec<(u64, Act)>, Carrier) {
    let began = now();
    let mut ways = Ways::new(Transport::Auto, path.priority, began);
    if path.takes_offers {
        ways = ways.offering_again();
    }
    let (mut acts, mut tcp, mut udp, mut silent, mut has_udp) = (Vec::new(), 0, 0, None, true);
    let (mut tcp_from, mut tcp_until, mut opened, mut is_open) = (0, u64::MAX, 0, false);
    for tick in 1..seconds * 10 {
        let within = |(from, until): (u64, u64)| (from * 10..until * 10).contains(&tick);
        tcp += if tick == tcp_from { path.sockets } else { 0 };
        tcp += if (tcp_from..tcp_until).contains(&tick) && !within(path.dark) { path.tcp / 10 } else { 0 };
        let may_be_open = (tcp_from..tcp_until).contains(&tick);
        opened += u64::from(may_be_open && !is_open && !within(path.dark));
        is_open = may_be_open && (is_open || !within(path.dark));
        if tick >= path.heard * 10 {
            let lost = within(path.dark) || path.filtered.into_iter().any(within);
            udp += if lost { 0 } else { path.udp / 10 };
            silent = match silent {
                Some(silent) if lost => Some(silent + Duration::from_millis(100)),
                None if lost => None,
                _ => Some(Duration::ZERO),
            };
        }
        let heard = has_udp.then_some(SeenUdp { bytes: udp, silent });
        let seen = Seen { tcp, opened, udp: heard, left: path.left, copied: 0 };
        let act = ways.poll_act(began + Duration::from_millis(100 * tick), seen).unwrap();
        match act {
            Some(Act::CutTcp) => tcp_until = tick,
            Some(Act::RestTcp) => tcp_until = tick + 10,
            Some(Act::ResumeTcp) => (tcp_from, tcp_until) = (tick + 1 + path.opens, u64::MAX),
            Some(Act::EndUdp) => {
                (tcp_from, tcp_until) = (tcp_from.min(tick), u64::MAX);
                has_udp = false;
            }
            Some(Act::OfferUdp) => (has_udp, silent) = (true, None),
            None => {}
        }
        acts.extend(act.map(|act| (tick, act)));
    }
    (acts, ways.way().by)
}

#[test]
fn blocks_go_over_udp_where_that_gets_through_unless_tcp_carries_more() {
    use Act::{CutTcp, EndUdp, RestTcp, ResumeTcp};
    let checked = vec![RestTcp, ResumeTcp, CutTcp];
    assert_eq!(session(OPEN), (checked, Carrier::Udp), "as fast as TCP: compared once");
    let far_more = vec![RestTcp, CutTcp, ResumeTcp, CutTcp];
    assert_eq!(
        session(Path { udp: 100 * MB, ..OPEN }),
        (far_more, Carrier::Udp),
        "TCP's last blocks go over UDP"
    );
    assert_eq!(session(Path { tcp: 2 * MB, ..OPEN }), (vec![RestTcp, ResumeTcp, EndUdp], Carrier::Tcp));
    assert_eq!(session(Path { tcp: 100 * MB, ..OPEN }), (vec![RestTcp, EndUdp], Carrier::Tcp), "at once");
    assert_eq!(session(Path { heard: 99, ..OPEN }), (vec![], Carrier::Tcp), "filtered from the start");
    let much = Path { left: 1000 * MB, ..OPEN };
    assert_eq!(
        session(much),
        (vec![CutTcp, ResumeTcp, CutTcp], Carrier::Udp),
        "they do not fill the line together"
    );
}

#[test]
fn udp_that_is_slowed_down_to_a_trickle_is_left_and_an_idle_session_compares_nothing() {
    use Act::{CutTcp, EndUdp, ResumeTcp};
    let slowed = Path { tcp: 10 * MB, udp: 50_000, left: 1000 * MB, ..OPEN };
    let (acts, by) = timed_session(slowed, 40);
    let [(_, CutTcp), (_, ResumeTcp), (ended, EndUdp)] = acts[..] else { panic!("{acts:?}") };
    assert!(ended <= 90 && by == Carrier::Tcp, "{acts:?}");
    let idle = Path { tcp: 0, udp: 0, left: 1000 * MB, ..OPEN };
    assert_eq!(long_session(idle, 3600), (vec![CutTcp], Carrier::Udp));
}

#[test]
fn udp_that_carries_what_the_user_lets_it_is_compared_with_nothing() {
    let began = now();
    let limit = Rate::per_second(MB);
    let acts = |udp_rate: u64| {
        let mut ways = Ways::new(Transport::Auto, Priority::Fair, began).limited_to(limit);
        let acts = (1..600).filter_map(|tick| {
            let udp = SeenUdp { bytes: tick * udp_rate / 10, silent: Some(Duration::ZERO) };
            let seen = Seen { udp: Some(udp), left: 1000 * MB, ..Seen::default() };
            ways.poll_act(began + Duration::from_millis(100 * tick), seen).unwrap()
        });
        acts.collect::<Vec<_>>()
    };
    assert_eq!(acts(MB), [Act::CutTcp]);
    assert!(acts(MB / 3).contains(&Act::ResumeTcp), "something else slows it down");
}

#[test]
fn what_is_only_in_tcps_sockets_does_not_win_on_a_slow_line() {
    for (opens, kilobytes) in [(0, 600), (20, 600), (20, 100), (20, 1250)] {
        let bytes = kilobytes * 1_000;
        let slow = Path { tcp: bytes, udp: bytes, opens, sockets: 4 * MB, ..OPEN };
        let (acts, by) = long_session(slow, 200);
        assert!(!acts.contains(&Act::EndUdp), "{kilobytes} kB/s, opened after {opens}: {acts:?}");
        assert!(acts.contains(&Act::CutTcp) && by != Carrier::Tcp, "{acts:?}");
    }
}

#[test]
fn tcp_carries_within_a_second_where_udp_is_filtered_half_way_and_udp_ends_for_good() {
    let filtered = Path { tcp: 10 * MB, udp: 10 * MB, filtered: [(7, 999), NEVER], left: MB, ..OPEN };
    // UDP may have claimed all that is left: then TCP has nothing to carry until UDP has ended.
    for tcp in [10 * MB, 0] {
        let (acts, by) = timed_session(Path { tcp, ..filtered }, 40);
        let [.., (resumed, Act::ResumeTcp), (ended, Act::EndUdp)] = acts[..] else { panic!("{acts:?}") };
        assert!(resumed <= 82 && ended <= 100 && by == Carrier::Tcp, "{acts:?}");
    }
}

fn tries(acts: &[Act]) -> usize {
    acts.iter().filter(|act| **act == Act::OfferUdp).count()
}

#[test]
fn udp_that_was_filtered_for_a_while_carries_again() {
    use Act::{CutTcp, EndUdp, OfferUdp, ResumeTcp};
    // However long ago they were compared.
    for again in [700, 900] {
        let filtered = [(7, 36), (again, again + 20)];
        let path = Path { filtered, left: 1000 * MB, takes_offers: true, ..OPEN };
        let (acts, by) = long_session(path, 100);
        let expected = [CutTcp, ResumeTcp, EndUdp, OfferUdp, EndUdp, OfferUdp, CutTcp];
        assert_eq!((&acts[..], by), (&expected[..], Carrier::Udp));
        let (acts, by) = long_session(path, again + 45);
        assert_eq!(
            (tries(&acts), by),
            (3, Carrier::Udp),
            "once it has lasted, as soon as the first time: {acts:?}"
        );
    }
}

#[test]
fn udp_is_not_offered_again_to_who_takes_no_offer_or_for_little() {
    let path = Path { filtered: [(7, 36), NEVER], left: 1000 * MB, takes_offers: true, ..OPEN };
    for path in [Path { takes_offers: false, ..path }, Path { left: 0, ..path }] {
        let (acts, by) = long_session(path, 600);
        assert_eq!((tries(&acts), by), (0, Carrier::Tcp));
    }
}

#[test]
fn udp_that_is_never_heard_is_offered_rarely() {
    let deaf = Path { heard: 1 << 40, left: 1000 * MB, takes_offers: true, ..OPEN };
    let (acts, by) = long_session(deaf, 24 * 3600);
    assert_eq!((by, acts[..2].to_vec()), (Carrier::Tcp, vec![Act::EndUdp, Act::OfferUdp]));
    assert!((24..32).contains(&tries(&acts)), "{} times a day", tries(&acts));
}

#[test]
fn what_tcp_carries_more_than_is_compared_again_and_costs_little() {
    let slower = Path { tcp: 4 * MB, left: 1000 * MB, takes_offers: true, ..OPEN };
    let (acts, by) = long_session(slower, 3600);
    assert_eq!(by, Carrier::Tcp);
    assert!((2..4).contains(&tries(&acts)), "{acts:?}");
}

#[test]
fn a_dark_path_costs_no_way_that_was_there() {
    let dark = Path { dark: (5, 10), ..OPEN };
    let (acts, by) = session(dark);
    assert_eq!(acts[..3], [Act::RestTcp, Act::ResumeTcp, Act::CutTcp]);
    assert!(!acts.contains(&Act::EndUdp) && by != Carrier::Tcp);
}

/// All that is declared has arrived, and the walk goes on: the other end looks for a path that was dark less and less often.
#[test]
fn a_udp_that_has_nothing_to_carry_may_come_back_later_than_tcp() {
    let idle = Path { tcp: 0, udp: 50_000, dark: (5, 13), filtered: [(13, 20), NEVER], ..OPEN };
    let (acts, by) = session(idle);
    assert!(!acts.contains(&Act::EndUdp) && by != Carrier::Tcp, "{acts:?} {by:?}");
}

#[test]
fn in_the_background_udp_takes_over_as_soon_as_it_is_heard() {
    let background = Path { tcp: 100 * MB, priority: Priority::Background, ..OPEN };
    assert_eq!(session(background), (vec![Act::RestTcp], Carrier::Udp));
    assert_eq!(session(Path { heard: 99, ..background }), (vec![], Carrier::Tcp));
}

#[test]
fn who_asks_for_udp_and_has_none_is_told() {
    let began = now();
    let mut ways = Ways::new(Transport::Udp, Priority::Fair, began);
    let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
    let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
    assert!((0..15).all(|second| poll(second).is_ok()));
    assert_eq!(poll(16), Err(NoUdp::Unheard));
}

/// A link that went down again within a round trip of coming back ended the transfer, for a firewall that was not there.
#[test]
fn who_has_had_udp_before_waits_for_a_link_that_is_down() {
    let began = now();
    let mut ways = Ways::new(Transport::Udp, Priority::Fair, began).after_udp();
    let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
    let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
    assert!((0..180).all(|second| poll(second).is_ok()));
    assert_eq!(poll(181), Err(NoUdp::Silent));
}

#[test]
fn who_was_stopped_before_anything_came_waits_for_as_long_after_that() {
    let began = now();
    let mut ways = Ways::new(Transport::Udp, Priority::Fair, began);
    let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
    let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
    assert!((0..15).chain(1000..1015).all(|second| poll(second).is_ok()));
    assert_eq!(poll(1015), Err(NoUdp::Unheard));
}
