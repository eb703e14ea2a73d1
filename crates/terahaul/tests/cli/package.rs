//! The Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Documents below `folder`, and what they refer to that is not there.
fn dead_links(folder: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            dead.extend(dead_links(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&entry).unwrap();
            let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let is_dead = |link: &&str| !link.starts_with("http") && !folder.join(link).exists();
            dead.extend(links.filter(is_dead).map(|link| format!("{}: {link}", entry.display())));
        }
    }
    dead
}

#[test]
fn the_package_has_the_program_the_service_and_what_help_refers_to() {
    let program = env!("CARGO_BIN_EXE_terahaul");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    // Compressing a development build takes longer than everything else here.
    let mut make = Command::new("sh");
    // As root's may be.
    make.args(["-c", "umask 077 && exec \"$@\"", "sh"]).arg(repository.join("packaging/deb.sh"));
    let made = output_of(make.args([program]).arg(folder.path()).env("DPKG_DEB_COMPRESSOR_TYPE", "none"));
    let package = made.lines().last().unwrap();
    let listed = output_of(Command::new("dpkg-deb").args(["--contents", package]));
    let hidden = listed.lines().filter(|line| !line.starts_with('l') && !line[7..].starts_with('r'));
    assert_eq!(hidden.collect::<Vec<_>>(), Vec::<&str>::new(), "who uses it can read it");
    let root = folder.path().join("root");
    output_of(Command::new("dpkg-deb").args(["--extract", package]).arg(&root));

    let version = output_of(Command::new(root.join("usr/bin/terahaul")).arg("--version"));
    let field = |name| output_of(Command::new("dpkg-deb").args(["--field", package, name]));
    let (packaged, program_version) = (field("Version"), version.trim().strip_prefix("terahaul ").unwrap());
    // What another commit makes of it is another version, and an upgrade.
    let built = packaged.trim().strip_prefix(program_version).unwrap();
    assert_eq!(built.starts_with("+git20"), repository.join(".git").exists(), "{packaged}");
    output_of(Command::new("dpkg").args(["--validate-version", packaged.trim()]));
    output_of(Command::new("dpkg").args(["--compare-versions", packaged.trim(), "ge", program_version]));
    assert!(field("Depends").starts_with("libc6 (>= 2."));

    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/terahaul.service")).unwrap();
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
    assert!(root.join(started.split(' ').next().unwrap()).exists(), "{started}");
    let settings = unit.lines().find_map(|line| line.strip_prefix("EnvironmentFile=/")).unwrap();
    let settings = fs::read_to_string(root.join(settings)).unwrap();
    let help = output_of(Command::new(program).args(["serve", "--help"]));
    let flags = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
    };
    for flag in flags(started).into_iter().chain(flags(&settings)).filter(|flag| flag != "--help") {
        assert!(help.contains(&flag), "{flag}");
    }
    for document in ["cli", "cp", "lab", "operations", "probe", "protocol", "security"] {
        assert!(root.join(format!("usr/share/doc/terahaul/docs/{document}.md")).exists(), "{document}");
    }
    assert_eq!(dead_links(&root.join("usr/share/doc/terahaul")), Vec::<String>::new());
    assert!(root.join("usr/share/man/man1/terahaul-cp.1.gz").exists());
    assert!(root.join("usr/share/zsh/vendor-completions/_terahaul").exists(), "where Debian's zsh looks");
    for script in ["postinst", "prerm", "postrm"] {
        output_of(Command::new("sh").arg("-n").arg(repository.join("packaging").join(script)));
        let mode = fs::metadata(repository.join("packaging").join(script)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script} is run");
    }
}
