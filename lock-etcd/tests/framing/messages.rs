//! Messages of gRPC: a flag, a length, and that many bytes.

use bytes::{Buf, Bytes, BytesMut};

/// The field of a watch response that contains its events.
const EVENTS: u64 = 11;

/// Removes and returns the first message with its head, if it is complete.
pub(super) fn take_message(bytes: &mut BytesMut) -> Option<Bytes> {
    let len = 5 + u32::from_be_bytes(*bytes.get(1..5)?.first_chunk()?) as usize;
    (bytes.len() >= len).then(|| bytes.split_to(len).freeze())
}

/// Whether a watch response contains events. Others only say that a watch was created, or that nothing has happened.
pub(super) fn has_events(message: &[u8]) -> bool {
    let mut fields = message.get(5..).unwrap_or_default();
    while let Some(tag) = varint(&mut fields) {
        if tag >> 3 == EVENTS {
            return true;
        }
        let skipped = match tag & 7 {
            0 => varint(&mut fields).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut fields),
            5 => Some(4),
            _ => None,
        };
        let Some(skipped) = skipped.and_then(|len| usize::try_from(len).ok()) else { return false };
        fields = fields.get(skipped..).unwrap_or_default();
    }
    false
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        if bytes.is_empty() {
            return None;
        }
        let byte = bytes.get_u8();
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
