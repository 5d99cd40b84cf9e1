//! The counter of tokens of a lock, found from the specification of Redis Cluster and ADR 1, and not by the code that is tested.

/// The key of the counter of a lock whose own key has no hash tag: `prefix·0xFF·2·c{N}`, where `N` is the smallest number with the slot of
/// that key. Not for a prefix with a brace.
pub(crate) fn counter_key(prefix: &str, key: &[u8]) -> Vec<u8> {
    let wanted = slot(key);
    let tag = (0..1_000_000_u32).find(|number| slot(number.to_string().as_bytes()) == wanted);
    let tag = tag.expect("every slot has a number");
    [prefix.as_bytes(), b"\xff2c{", tag.to_string().as_bytes(), b"}"].concat()
}

/// The id of a counter whose last token is this one: it has the ms and a sequence.
pub(crate) fn counter_id(token: u64) -> String {
    format!("{}-{}", token / 1_000, token % 1_000)
}

/// The slot of a key without a hash tag: CRC16/XMODEM modulo the number of slots.
fn slot(key: &[u8]) -> u16 {
    let crc = key.iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}
