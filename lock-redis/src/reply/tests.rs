use proptest::prelude::*;

use super::*;
use crate::fuzzing;

const SERVER: &str = "h:1";

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// Values whose first parts look like answers, with anything in the other parts.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<i64>().prop_map(Value::Int),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
        "[AWBGMFCXhwfmrs1]{1,2}".prop_map(|text| bulk(&text)),
        "[0-9a-f]{32}".prop_map(|text| bulk(&text)),
        "[0-9]{1,24}".prop_map(|text| bulk(&text)),
        ".*".prop_map(Value::SimpleString),
    ];
    leaf.prop_recursive(3, 64, 8, |inner| prop::collection::vec(inner, 0..8).prop_map(Value::Array))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_answer_makes_its_readers_panic_or_need_more_memory_than_it_has(answer in hostile()) {
        let memory = allocation_counter::measure(|| fuzzing::answer(&answer)).bytes_max;
        let size = allocation_counter::measure(|| drop(answer.clone())).bytes_max;
        prop_assert!(memory <= 4096 + 16 * size, "{} bytes for {} of {:?}", memory, size, answer);
    }

    #[test]
    fn a_waiting_answer_is_read_to_the_last_bit(token in any::<u64>(), ahead in any::<u32>(), ms in any::<u32>()) {
        let answer = Value::Array(vec![
            bulk("W"), bulk(&token.to_string()), Value::Int(ahead.into()), Value::Int(ms.into()), bulk("o"), bulk(":a:b"),
        ]);
        let expected = EnterReply::Waiting {
            token: FencingToken::new(token),
            ahead: ahead.into(),
            look_again: Duration::from_millis(ms.into()),
            holder: Some(Holder::Ours { label: Some("a:b".into()) }),
            unnotified: false,
        };
        prop_assert_eq!(enter(&answer, SERVER).unwrap(), expected);
    }
}

#[test]
fn negative_numbers_and_strange_kinds_are_not_understood() {
    let waiting = |ahead| {
        let parts = vec![bulk("W"), bulk("1"), Value::Int(ahead), Value::Int(1), bulk("n"), bulk("")];
        enter(&Value::Array(parts), SERVER).map_err(|error| error.kind().clone())
    };
    assert!(waiting(0).is_ok());
    assert_eq!(waiting(-1).unwrap_err(), Kind::Protocol);
    let mismatch = Value::Array(vec![bulk("M"), bulk("z"), bulk("1")]);
    assert_eq!(*enter(&mismatch, SERVER).unwrap_err().kind(), Kind::Protocol);
}

#[test]
fn one_lease_that_failed_does_not_hide_the_others() {
    let answer = Value::Array(vec![Value::Int(1), bulk("WRONGTYPE Operation against a key"), Value::Int(0)]);
    let answers = renewals(&answer, 3, SERVER).unwrap();
    assert!(matches!(answers[0], Ok(true)));
    assert_eq!(*answers[1].as_ref().unwrap_err().kind(), Kind::ForeignData);
    assert!(matches!(answers[2], Ok(false)));
    assert_eq!(*renewals(&answer, 2, SERVER).unwrap_err().kind(), Kind::Protocol);
}

/// With several servers, an operator has to know which one to look at.
#[test]
fn every_error_names_the_server() {
    let of_enter = |parts: &[&str]| {
        let answer = Value::Array(parts.iter().copied().map(bulk).collect());
        enter(&answer, SERVER).unwrap_err()
    };
    let error = of_enter(&["F", "list"]);
    assert_eq!(*error.kind(), Kind::ForeignData);
    assert_eq!(error.to_string(), "redis: h:1: the key holds a list that no lock of ours wrote");
    let counter = Value::BulkString(b"p:\xff2c{7}".to_vec());
    for (letter, kind) in [("C", Kind::ForeignData), ("X", Kind::TokensExhausted)] {
        let error = enter(&Value::Array(vec![bulk(letter), counter.clone()]), SERVER).unwrap_err();
        assert_eq!(*error.kind(), kind);
        assert!(error.to_string().contains("\"p:\\xff2c{7}\", from which all locks of its slot"), "{error}");
    }
    let strange = bulk("strange");
    let one = Value::Array(vec![strange.clone()]);
    for error in [
        of_enter(&["M", "m", "1"]),
        of_enter(&["X"]),
        of_enter(&["X", "counter"]),
        of_enter(&["W", "1"]),
        enter(&Value::Nil, SERVER).unwrap_err(),
        departure(&Value::Nil, SERVER).unwrap_err(),
        rows(&strange, SERVER).unwrap_err(),
        perhaps_ours(&one, 1, SERVER).unwrap_err(),
        perhaps_ours(&one, 2, SERVER).unwrap_err(),
        renewals(&one, 2, SERVER).unwrap_err(),
        renewals(&one, 1, SERVER).unwrap().remove(0).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("redis: h:1: "), "{error}");
    }
}
