//! What `scripts/install-tools.sh` leaves of the servers that it installs: nothing that runs, now or later. Debian's own
//! programs are played by scripts, in a mount namespace of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Installs a server, and another one that it needs, as a package does, after somebody else has installed one; fails where servers
/// would be started, and as often as the lists are still locked.
const APT_GET: &str = "#!/bin/sh
[ -s $FAKES/locked ] && sed -i 1d $FAKES/locked && echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)' && exit 100
[ -x /usr/sbin/policy-rc.d ] || exit 1
printf 'postgresql.service enabled\\nrpcbind.socket enabled\\nssh.service enabled\\n' >> $FAKES/units
printf 'Setting up rpcbind (1.2) ...\\nSetting up openssh-server (1:9.2) ...\\n'
";
const DPKG: &str = "#!/bin/sh
case \"$*\" in
    '-L rpcbind openssh-server') printf '/lib/systemd/system/%s\\n' rpcbind.service rpcbind.socket ssh.service ;;
    *) exit 1 ;;
esac
";
const SYSTEMCTL: &str = "#!/bin/sh
case \"$*\" in
    *list-unit-files*) cat $FAKES/units ;;
    *disable*) echo \"$@\" >> $FAKES/disabled ;;
esac
";

/// Runs the script where no server is installed and `/usr/sbin` has what `before` puts there; `None` where users make no
/// mount namespaces.
fn install(fakes: &Path, before: &str) -> Option<Output> {
    for (name, text) in [("apt-get", APT_GET), ("dpkg", DPKG), ("systemctl", SYSTEMCTL)] {
        fs::write(fakes.join(name), text).unwrap();
        fs::set_permissions(fakes.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(fakes.join("units"), "cron.service enabled\n").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-tools.sh");
    let inside = format!(
        "mount -t tmpfs none /usr/sbin && cd /usr/sbin && {before} && {} sshd >&2; ran=$?; ls; exit $ran",
        script.display()
    );
    let unshare = |command: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", command]);
        unshare.env("FAKES", fakes).env("PATH", format!("{}:/usr/bin:/bin", fakes.display()));
        unshare.output()
    };
    match unshare("mount -t tmpfs none /usr/sbin") {
        Ok(tried) if tried.status.success() => Some(unshare(&inside).unwrap()),
        _ => {
            println!("skipped: no mount namespaces here");
            None
        }
    }
}

#[test]
fn servers_are_not_started_with_the_machine_whoever_brought_them() {
    let fakes = tempfile::tempdir().unwrap();
    let Some(ran) = install(fakes.path(), "true") else { return };
    assert!(ran.status.success(), "{ran:?}");
    let disabled = fs::read_to_string(fakes.path().join("disabled")).unwrap_or_default();
    assert!(disabled.contains("rpcbind.socket") && disabled.contains("ssh.service"), "{disabled}");
    assert!(!disabled.contains("cron") && !disabled.contains("postgresql"), "{disabled}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "", "what was there while it installed");
}

/// A machine that has just started updates its lists. It was said that the network was to be checked.
#[test]
fn what_else_installs_just_now_is_waited_for() {
    let fakes = tempfile::tempdir().unwrap();
    fs::write(fakes.path().join("locked"), "install\nupdate\n").unwrap();
    let Some(ran) = install(fakes.path(), "true") else { return };
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(said.trim(), "installing openssh-server");
}

#[test]
fn a_policy_that_a_killed_installer_left_goes_and_somebody_elses_stays() {
    let fakes = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-tools.sh");
    let script = fs::read_to_string(script).unwrap();
    let mark = script.lines().find_map(|line| line.strip_prefix("mark='")?.strip_suffix('\'')).unwrap();
    for (line, left) in [(mark, ""), ("# an administrator", "policy-rc.d\n")] {
        let policy =
            format!("printf '#!/bin/sh\\n{line}\\nexit 101\\n' > policy-rc.d && chmod 755 policy-rc.d");
        let Some(ran) = install(fakes.path(), &policy) else { return };
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), left, "{line}");
    }
}
