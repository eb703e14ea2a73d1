#!/usr/bin/env bash
# Makes a Debian package of a program that is built: packaging/deb.sh PROGRAM FOLDER. Prints the package's path.
# dpkg-deb is all that it needs; the C library that the program asks for becomes what the package depends on.
set -euo pipefail
# What is packed here is for everybody, whatever the builder's own files are.
umask 022
[ $# -eq 2 ] || { echo "usage: packaging/deb.sh PROGRAM FOLDER" >&2; exit 2; }
program=$(realpath -- "$1")
folder=$(realpath -- "$2")
cd "$(dirname "$0")/.."

version=$("$program" --version | cut -d' ' -f2)
# apt leaves a program in place whose version is that of the new one.
if [ -e .git ]; then
    # Without it, it would be an earlier one than those that have been made.
    commit=$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h)
    version+=+git$commit
fi
architecture=$(dpkg --print-architecture)
# The latest version that one of its symbols has.
libc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sort -uV | tail -1 | cut -d_ -f2)
[ -n "$libc" ] || { echo "packaging/deb.sh: $program is not linked with the GNU C library: its package would not say what it needs" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
make --no-print-directory --silent install-files DESTDIR="$root" PREFIX=/usr RELEASE="$program"
gzip -9n "$root"/usr/share/man/man1/*.1
# Debian's zsh looks for what packages bring there.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
install -D -m 644 packaging/terahaul.service "$root/usr/lib/systemd/system/terahaul.service"
install -D -m 644 packaging/default "$root/etc/default/terahaul"
documents=$root/usr/share/doc/terahaul
{
    echo "Terahaul is under the Apache License 2.0 or the MIT License, as you like."
    echo "On Debian systems, the former is in /usr/share/common-licenses/Apache-2.0."
    echo
    cat LICENSE-MIT
} > "$documents/copyright"

install -d "$root/DEBIAN"
for script in postinst prerm postrm; do install -m 755 "packaging/$script" "$root/DEBIAN/$script"; done
echo /etc/default/terahaul > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/control" <<CONTROL
Package: terahaul
Version: $version
Architecture: $architecture
Maintainer: The Terahaul contributors
Depends: libc6 (>= $libc), libgcc-s1, passwd
Recommends: ca-certificates, openssh-client
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: moves terabytes to where they belong, encrypted, resumable, proven
 One program: a depot with a web page that files are sent to and received from,
 a command line for it, and copies between hosts over ssh.
CONTROL
package=$folder/terahaul_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
