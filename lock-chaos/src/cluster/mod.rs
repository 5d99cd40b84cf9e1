//! The clusters that are broken, each of servers of its own.
//!
//! | role | file |
//! |---|---|
//! | what the rig does to a cluster | `interface` |
//! | which cluster belongs to which store | `open` |
//! | the clusters | `redis`, `etcd`, `zookeeper`, `sqlite` |

mod etcd;
mod insist;
mod interface;
mod open;
mod redis;
mod sqlite;
mod zookeeper;

pub(crate) use self::{interface::Cluster, open::start};
