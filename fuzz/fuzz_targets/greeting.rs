//! What the two sides of a copy say over ssh before anything else: what is read is written so that it reads the same, and no byte
//! behind it is taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_copy::greeting::{Answer, Asked, Request, read, read_request, write};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().build().expect("a runtime");
}

/// As a message, which the fuzzer would hardly find by itself.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [b"\0terahaul copy\n\0".as_slice(), &(bytes.len() as u32).to_le_bytes(), bytes, b"behind"].concat()
}

async fn check(bytes: &[u8]) {
    let mut rest = bytes;
    if let Ok(Asked::Request(request)) = read_request(&mut rest).await {
        let mut again = Vec::new();
        write(&mut again, &*request).await.expect("a vector takes all");
        assert_eq!(read::<_, Request>(&mut again.as_slice()).await.ok(), Some(*request));
    }
    let mut rest = bytes;
    if let Ok(answer) = read::<_, Answer>(&mut rest).await {
        let mut again = Vec::new();
        write(&mut again, &answer).await.expect("a vector takes all");
        assert_eq!(read(&mut again.as_slice()).await.ok(), Some(answer));
    }
}

fuzz_target!(|bytes: &[u8]| {
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            check(bytes).await;
            let framed = framed(bytes);
            check(&framed).await;
            let mut rest = framed.as_slice();
            let _ = read_request(&mut rest).await;
            assert_eq!(rest, b"behind");
        });
    });
});
