//! `POST /transfers/{id}/entries` through the real router: entries are placed, or refused with a typed error.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use terahaul_fuzz::Rig;

thread_local! {
    static STATE: RefCell<Option<(Rig, String)>> = const { RefCell::new(None) };
}

fuzz_target!(|body: &[u8]| {
    STATE.with_borrow_mut(|state| {
        let (rig, transfer) = state.get_or_insert_with(|| {
            let rig = Rig::new();
            let transfer = rig.transfer();
            (rig, transfer)
        });
        let headers: &[(&str, &[u8])] = &[("content-type", b"application/json")];
        let answer = rig.call("POST", &format!("/transfers/{transfer}/entries"), headers, body.to_vec());
        if !answer.status.is_success() {
            return answer.assert_typed_refusal();
        }
        let placed: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let listed = rig.call("GET", &format!("/transfers/{transfer}/entries?limit=5000"), &[], Vec::new());
        let listed: serde_json::Value = serde_json::from_slice(&listed.body).expect("JSON");
        assert_eq!(listed["total"], placed["total"]);
        // Posting the same again changes nothing.
        let again = rig.call("POST", &format!("/transfers/{transfer}/entries"), headers, body.to_vec());
        let again: serde_json::Value = serde_json::from_slice(&again.body).expect("JSON");
        assert_eq!(again["total"], placed["total"], "{again}");
        if placed["total"] != 0 {
            rig.call("DELETE", &format!("/transfers/{transfer}"), &[], Vec::new());
            *transfer = rig.transfer();
        }
    });
});
