//! Runs the checker, and reports what it found.

use std::{
    fmt::{Debug, Display},
    hash::Hash,
    thread,
    time::Instant,
};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

/// Explores every reachable state. Every promise has to hold, and every state that has to be reachable has to be reached.
pub(crate) fn proves<M>(name: &str, model: M, least: usize)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Display + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + Display + PartialEq,
{
    let started = Instant::now();
    let properties = model.properties();
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let explored =
        model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = explored.unique_state_count();
    let mut found = explored.discoveries();
    println!(
        "{name}: {states} states, {} transitions, at most {} steps deep, {:.1?}",
        explored.state_count(),
        explored.max_depth(),
        started.elapsed()
    );
    for property in properties {
        match (property.expectation, found.remove(property.name)) {
            (Expectation::Sometimes, None) => panic!("{name}: never reached: {}", property.name),
            (Expectation::Always, Some(path)) => panic!("{name}: broken: {}\n{}", property.name, story(path)),
            _ => {}
        }
    }
    assert!(states >= least, "{name}: {states} states are too few to mean anything");
}

/// Finds the shortest way to break the only promise of a model, and prints it.
pub(crate) fn breaks<M>(model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Display + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + Display + PartialEq,
{
    let started = Instant::now();
    let promised = model.properties().remove(0).name;
    // With one thread, the checker visits the states in the order of their distance.
    let explored = model.checker().spawn_bfs().join();
    let states = explored.unique_state_count();
    let path = explored.discovery(promised);
    let path = path.unwrap_or_else(|| panic!("not broken in any of {states} states: {promised}"));
    let story = story(path);
    println!("broken: {promised} ({states} states, {:.1?})\n{story}", started.elapsed());
    story.lines().count() - 1
}

fn story<S: Display, A: Display>(path: Path<S, A>) -> String {
    let step = |(i, (state, action)): (usize, (S, Option<A>))| {
        let state = format!("{:>4}  {state}\n", "");
        action.map_or(state.clone(), |action| format!("{state}{:>4}. {action}\n", i + 1))
    };
    path.into_vec().into_iter().enumerate().map(step).collect()
}
