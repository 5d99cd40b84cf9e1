//! [`Letters`]: what is told when a transaction is committed, and the store is free again.

use std::sync::Arc;

use crate::{
    folder::Folder,
    home::Home,
    post::{Hall, Message, Post},
    presence,
    verb::News,
};

/// Messages that are not sent yet, and files of the dead. To send them wakes tasks, which is code of others.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    here: Vec<Message>,
    /// The post of that time: the file may be replaced before they are sent.
    away: Vec<(Arc<Post>, i64, Message)>,
    buried: Vec<(Arc<Folder>, i64)>,
}

impl Letters {
    /// What a transaction has brought, whose process is found at `home`.
    pub(crate) fn add(&mut self, news: News, home: &Home) {
        for (member, message) in news.told {
            if member == home.id() {
                self.here.push(message);
            } else {
                self.away.push((Arc::clone(&home.post), member, message));
            }
        }
        self.buried.extend(news.buried.into_iter().map(|member| (Arc::clone(home.folder()), member)));
    }

    pub(crate) fn send(self, hall: &Hall) {
        for message in self.here {
            hall.tell(message);
        }
        for (post, member, message) in self.away {
            post.send(member, message);
        }
        for (folder, member) in self.buried {
            presence::remove_files(&folder, member);
        }
    }
}
