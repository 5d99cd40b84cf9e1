//! Refuses file systems on which neither SQLite's shared memory nor `flock` reaches all processes that can open the file.

use std::{io, path::Path};

/// The numbers of `statfs` (`statfs(2)`, `linux/magic.h`), and common names.
const REMOTE: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x564C, "NCP"),
    (0x0102_1997, "9P"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x2003_0528, "OrangeFS"),
    (0x786F_4256, "a folder shared by VirtualBox"),
    (0xBACB_ACBC, "a folder shared by VMware"),
    // sshfs, virtiofs and many more. Local ones cannot be distinguished from them.
    (0x6573_5546, "FUSE"),
];

/// The name of a folder's file system, if locks cannot be kept on it.
///
/// # Errors
/// If the folder cannot be looked at.
pub(crate) fn refused(folder: &Path) -> io::Result<Option<&'static str>> {
    let found = rustix::fs::statfs(folder)?;
    // All of these fit 32 bits; the type of the field differs from one architecture to the next.
    Ok(u32::try_from(found.f_type & 0xFFFF_FFFF).ok().and_then(remote))
}

fn remote(magic: u32) -> Option<&'static str> {
    REMOTE.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name_and_local_ones_are_not() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0x0102_1997, "9P"), (0x6573_5546, "FUSE")]
        {
            assert_eq!(remote(magic), Some(name));
        }
        // ext4, tmpfs, XFS, Btrfs, overlayfs, ZFS.
        for magic in [0xEF53, 0x0102_1994, 0x5846_5342, 0x9123_683E, 0x794C_7630, 0x2FC1_2FC1] {
            assert_eq!(remote(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn what_this_machine_keeps_temporary_files_on_is_local() {
        assert_eq!(refused(&std::env::temp_dir()).unwrap(), None);
        assert!(refused(Path::new("/no/such/folder")).is_err());
    }
}
