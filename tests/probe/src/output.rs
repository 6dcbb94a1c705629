//! More said than anyone will read, and nothing heard.

use std::{
    io::{Write, stderr, stdout},
    thread::sleep,
    time::Duration,
};

use crate::{count, tries::Tries};

const PIECE: usize = 64 << 10;

/// `shout BYTES [both]`: lines of `y`, to one stream or byte by byte to both in turn.
pub(crate) fn shout(args: &[String], tries: &mut Tries) {
    let bytes = count(args, 0, 1 << 20);
    let mut said = 0u64;
    if args.iter().any(|word| word == "both") {
        while said < bytes && stdout().write_all(b"o\n").is_ok() && stderr().write_all(b"e\n").is_ok() {
            said += 4;
        }
    } else {
        let piece = b"y\n".repeat(PIECE / 2);
        while said < bytes && stdout().write_all(&piece).is_ok() {
            said += PIECE as u64;
        }
    }
    tries.found("said", said);
}

/// `line BYTES`: one line without an end, with bytes in it that are no text.
pub(crate) fn line(args: &[String], tries: &mut Tries) {
    let bytes = count(args, 0, 1 << 20);
    let mut piece = vec![b'a'; PIECE];
    piece[7] = 0;
    piece[77] = 0xff;
    piece[777] = 0xc3;
    let mut said = 0;
    while said < bytes && stdout().write_all(&piece).is_ok() {
        said += PIECE as u64;
    }
    tries.found("said", said);
}

/// `deaf SECONDS`: never reads what it is given.
pub(crate) fn deaf(args: &[String], tries: &mut Tries) {
    sleep(Duration::from_secs(count(args, 0, 60)));
    tries.found("heard", "nothing");
}
