//! Refusals of the server: each verb of a batch gets the answer that it would get alone.

use super::*;

/// PR20: a script that has written once may write anything. So a leave in the same command must not let an enter pass.
#[tokio::test]
async fn out_of_memory_each_is_answered_as_if_it_were_alone() {
    let server = Server::start();
    let client = warm(&server).await;
    let held = entries("held", 64);
    hold_all(&client, &held).await;
    server.command::<()>("CONFIG SET maxmemory 1");
    let (free, mut answers) = (entries("free", 64), Vec::new());
    let asked = free.iter().zip(&held).map(|(mine, theirs)| async {
        tokio::join!(client.leave(theirs), client.enter(mine, Step::Create, WaitMode::Queue))
    });
    for (left, entered) in join_all(asked).await {
        assert_eq!(left, Departure::Left);
        answers.push(entered);
    }
    assert_eq!(kinds(&answers), vec![Some(&Kind::OutOfMemory); 64]);
    server.command::<()>("CONFIG SET maxmemory 0");
    hold_all(&client, &free).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_says_so_to_each() {
    let server = Server::start();
    let client = warm(&server).await;
    let entries = entries("job", 64);
    let nobody = Port::reserve();
    server.command::<()>(&format!("REPLICAOF 127.0.0.1 {nobody}"));
    assert_eq!(kinds(&ask_all(&client, &entries).await), vec![Some(&Kind::ReadOnly); 64]);
    server.command::<()>("REPLICAOF NO ONE");
    hold_all(&client, &entries).await;
}

/// Lets snapshots fail or succeed. A folder in place of the file makes them fail, as a full disk does. The server then takes no writes, not
/// even those that memory pressure never denies.
async fn snapshots(server: &Server, fail: bool) {
    let (_, folder): (String, String) = server.command("CONFIG GET dir");
    let (_, file): (String, String) = server.command("CONFIG GET dbfilename");
    let file = std::path::Path::new(&folder).join(file);
    if fail {
        std::fs::create_dir(&file).unwrap();
        server.bytes::<()>(&[b"CONFIG", b"SET", b"save", b"3600 1"]);
    } else {
        std::fs::remove_dir(&file).unwrap();
    }
    server.command::<String>("BGSAVE");
    let word = if fail { "rdb_last_bgsave_status:err" } else { "rdb_last_bgsave_status:ok" };
    soon(async {
        while !server.command::<String>("INFO persistence").contains(word) {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses_and_nothing_is_lost_or_given_twice() {
    let server = Server::start();
    let client = warm(&server).await;
    let [held, free, doubtful] = ["held", "free", "doubtful"].map(|of| entries(of, 48));
    let next = entries("held", 48);
    hold_all(&client, &held).await;
    snapshots(&server, true).await;
    let before = server.dump();
    let (client, held, free, next, doubtful) = (&client, &held, &free, &next, &doubtful);
    let asked = (0..48).map(|i| async move {
        let (left, entered) = (
            client.redis.leave(&held[i], Creates::Answered),
            client.enter(&free[i], Step::Create, WaitMode::Try),
        );
        let (queued, shut) = (
            client.enter(&next[i], Step::Create, WaitMode::Queue),
            client.redis.leave(&doubtful[i], Creates::InDoubt),
        );
        let (left, entered, queued, shut) = tokio::join!(left, entered, queued, shut);
        [left.err(), entered.err(), queued.err(), shut.err()]
    });
    for refused in join_all(asked).await.into_iter().flatten() {
        assert_eq!(refused.as_ref().map(BackendError::kind), Some(&Kind::ReadOnly), "{refused:?}");
    }
    assert_eq!(server.dump(), before);

    snapshots(&server, false).await;
    hold_all(client, free).await;
    let places: Vec<_> =
        ask_all(client, next).await.into_iter().map(|place| waiting(place.unwrap())).collect();
    assert!(places.iter().all(|place| place.ahead == 1));
    leave_all(client, held).await;
    let admitted =
        join_all(next.iter().zip(&places).map(|(next, place)| client.again(next, place.token))).await;
    for (standing, place) in admitted.into_iter().zip(&places) {
        assert_eq!(super::admitted(standing), place.token);
    }
}

#[tokio::test]
async fn a_key_that_a_user_may_not_touch_is_denied_only_to_its_own_verb() {
    let server = Server::start();
    // The counter of a slot is used by all names of the slot.
    server.command::<()>("ACL SETUSER app on >pw ~*ours* ~*c{* &* +@all");
    let url = server.url().replace("redis://", "redis://app:pw@") + "?prefix=";
    let config = url.parse().unwrap();
    let keeper = Keeper::start().unwrap();
    let client = Client { redis: Redis::new(config, &keeper).unwrap(), keeper };
    for round in 0..2 {
        let mut asked = entries(&format!("ours{round}"), 64);
        asked[50] = mutex("theirs");
        let answers = ask_all(&client, &asked).await;
        let expected: Vec<_> = (0..64).map(|i| (i == 50).then_some(&Kind::Denied)).collect();
        assert_eq!(kinds(&answers), expected);
    }
}

#[tokio::test]
async fn on_several_slots_of_a_cluster_each_goes_alone() {
    let bus = Port::reserve();
    let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]);
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    server.command::<()>(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
    soon(async {
        while !server.command::<String>("CLUSTER INFO").contains("cluster_state:ok") {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    let client = server.client();
    for _ in 0..3 {
        let entries = entries("job", 96);
        hold_all(&client, &entries).await;
        leave_all(&client, &entries).await;
    }
    let errors: String = server.command("INFO errorstats");
    let refused = errors.split_once("errorstat_CROSSSLOT:count=").expect("a batch was tried").1;
    let refused: u64 = refused.split("\r\n").next().unwrap().parse().unwrap();
    assert!(refused <= 4, "{refused} batches were tried, though the first was refused");
}
