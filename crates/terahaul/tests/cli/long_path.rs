//! A path so long that a transfer asks for UDP by itself. What counts is how long a connection takes, and the system connects to a relay on
//! loopback at once, however slow that is: so it is one of the lab's.

use serde_json::Value;

use crate::lab::impossible;
use crate::rig::{Ran, assert_same, terahaul, write_random};

/// `text NAME FILE`: the last text of this name in lines of JSON.
const TEXT: &str = r#"text() { sed -n 's/.*"'$1'":"\([^"]*\)".*/\1/p' $2 | tail -n 1; }"#;

#[test]
fn by_itself_a_transfer_over_a_long_path_takes_udp_in_both_ways() {
    let home = tempfile::tempdir().unwrap();
    // Of less TCP's channels send the blocks that they have beside UDP, and on a busy machine they may be the faster ones.
    write_random(&home.path().join("src/a.bin"), 120_000_000, 1);
    let program = env!("CARGO_BIN_EXE_terahaul");
    let far = format!("exec {program} serve --json --data depot --listen $TERAHAUL_LAB_FAR:8750 > ready");
    let near = format!(
        "{TEXT}
        until [ -s ready ]; do sleep 0.05; done
        export TERAHAUL_URL=$(text url ready) TERAHAUL_TOKEN=$(text token ready)
        {program} send src --json > sent && {program} receive $(text transfer sent) dst --json > received"
    );
    let mut command = terahaul(home.path());
    command
        .args(["lab", "path", "--rate", "200mbit", "--rtt", "20ms", "--far", &far, "--", "sh", "-c", &near]);
    let ran = Ran::of(command);
    if impossible(&ran) {
        return;
    }
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for said in ["sent", "received"] {
        let said = std::fs::read_to_string(home.path().join(said)).unwrap();
        let events = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut ways = events.filter_map(|event| event["transport"].as_str().map(str::to_owned));
        assert!(ways.any(|way| way.contains("udp")), "{said}");
    }
    assert_same(&home.path().join("src"), &home.path().join("dst/src"));
}
