//! What `--help` teaches after the flags.

/// After the list of commands.
pub const OVERVIEW: &str = "\
Examples:
  terahaul serve
      Runs a depot here; prints the settings that clients need.
  terahaul send results/
      Sends what is in a folder; the last line is the link.
  terahaul receive 'https://…/t/…#thl_…' .
      Receives it. After an interruption, run it again to resume.
  terahaul cp results/ host:data/
      Copies to another host over ssh, in parallel.
  terahaul verify receipt.json .
      Proves, offline, that the files are those that were sent.

A client finds its depot in TERAHAUL_URL and TERAHAUL_TOKEN, or in what
'terahaul login' stored. 'terahaul help COMMAND' says more.";

/// After the flags of `serve`.
pub const SERVE: &str = "\
Examples:
  terahaul serve
      A depot for this machine, with its data in ./terahaul-data.
  terahaul serve --listen 0.0.0.0:8750 --url https://data.example.org:8750
      For the network. Without --tls-cert the depot's own certificate is pinned
      by its fingerprint, which the printed address and every link carry.
  terahaul serve --listen 127.0.0.1:0 --json | head -1
      For scripts: the first line has page, url and token.

The owner's token is shown at each start and kept in the data folder as
'owner-token', which only its owner can read. Ctrl-C stops the depot; what has
arrived is kept, and senders resume.";

/// After the flags of `send`.
pub const SEND: &str = "\
Examples:
  terahaul send results/ notes.txt
      Prints the link as the last line of stdout.
  terahaul send run42 --name 'Run 42' --expire-days 90 --receipt run42.json
      With a name, an expiry and the signed receipt kept.
  link=$(terahaul send --quiet photos) && echo \"$link\" | mail -s photos ana
  terahaul send big.img --limit 400mbit --channels 4
  terahaul send results/ --dry-run
      Lists what would be sent and what the depot has already.

After an interruption, run the same command again: what is durable is not sent
again. A file that changed meanwhile is named and sent anew. A file that cannot
be read is named; the rest is sent, and the exit code is 7.";

/// After the flags of `receive`.
pub const RECEIVE: &str = "\
Examples:
  terahaul receive 'https://depot.example:8750/t/…#thl_…' data/
      Quote the link: a shell would take # and & for itself.
  pbpaste | terahaul receive - data/
      Reads the link from stdin, so that it is not in the shell's history.
  terahaul receive LINK . --include '*.fastq.gz' --dry-run
      Lists what would be received.

Files appear under their names only when they are complete and verified; until
then they are in DIR/.terahaul-ID. After an interruption, run the same command
again to resume.";

/// After the flags of `cp`.
pub const CP: &str = "\
Examples:
  terahaul cp run42 user@host:data/
      Makes data/run42 there. Run again, it copies only what has changed.
  terahaul cp run42/ host:data/run42
      What is in run42, without a folder of that name in between.
  terahaul cp host:data/run42 host:notes.txt .
  terahaul cp -P 2222 -i ~/.ssh/key -J gateway big.img host:/srv/big-copy.img
      ssh's own settings, agent, keys and jump hosts all hold.
  terahaul cp --ports 50000-50100 src ssh://user@host:2222/srv/data/
      Where a firewall opens these ports. Where all are blocked, the data goes
      through ssh.
  terahaul cp -a --delete a/ host:b/
      Makes b the same as a; add -n to see first what would happen.
  terahaul cp --include='*/' --include='*.fastq' --exclude='*' runs/ b/
      On this machine; rules are rsync's, the first that matches decides.

The other host needs ssh and a 'terahaul' of its own (--install copies it
there). Files appear under their names when they are complete; after an
interruption, the same command goes on. Links are copied as links; times are
kept, and modes of what is new (with -a of all). docs/cp.md says how it works,
and what each flag of rsync and scp is here.";

/// After the flags of `verify`.
pub const VERIFY: &str = "\
Examples:
  terahaul verify run42.json data/
      Offline: checks the signature, reads every file again and names each that
      differs.
  terahaul verify 'https://depot.example:8750/t/…#thl_…' data/
      The same against the receipt that the depot keeps.
  terahaul verify run42.json data/ --extra
      Also names files that the receipt does not have.

Compared are kind, size, content (BLAKE3) and link targets, not times and
permissions. The exit code is 8 when anything differs.";

/// After the flags of `list`.
pub const LIST: &str = "\
Examples:
  terahaul list
  terahaul list --json | jq -r 'select(.state == \"complete\") | .id'";

/// After the flags of `info`.
pub const INFO: &str = "\
Examples:
  terahaul info 2vqkzwy7s5h3m4n6p7q2r3s4tq
  terahaul info 'https://depot.example:8750/t/…#thl_…'
      A link needs no token.
  terahaul info 2vqkzwy7s5h3m4n6p7q2r3s4tq --json |
      jq -r 'select(.event == \"entry\" and .blake3) | .blake3 + \"  \" + .path'
      What b3sum would print of files without line feeds or backslashes in their
      names.
  terahaul info 2vqkzwy7s5h3m4n6p7q2r3s4tq --summary --receipt run42.json
      The signed receipt, which 'terahaul verify' needs.";

/// After the flags of `extend`.
pub const EXTEND: &str = "\
Examples:
  terahaul extend 2vqkzwy7s5h3m4n6p7q2r3s4tq --expire-days 90
      Counted from now; its link stays the same.";

/// After the flags of `completions`.
pub const COMPLETIONS: &str = "\
Examples:
  source <(terahaul completions bash)
      In this shell; in ~/.bashrc, in every one.
  terahaul completions zsh > ~/.zfunc/_terahaul
      Where fpath has ~/.zfunc.
  terahaul completions fish > ~/.config/fish/completions/terahaul.fish

'make install' puts them in their places.";

/// After the flags of `man`.
pub const MAN: &str = "\
Examples:
  terahaul man ~/.local/share/man/man1 && man terahaul-cp

'make install' puts them in their place.";

/// After the flags of `remove`.
pub const REMOVE: &str = "\
Examples:
  terahaul remove 2vqkzwy7s5h3m4n6p7q2r3s4tq
      The depot forgets the transfer; its link leads nowhere.
  terahaul list --json | jq -r 'select(.state == \"partial\") | .id' |
      xargs -r terahaul remove --dry-run
      All that arrived in part; with -r nothing is run where there is none.";

/// After the flags of `token`.
pub const TOKEN: &str = "\
Examples:
  terahaul token create --label 'microscope 3' --scope send --quota 2TB
      The token is the last line of stdout, and is shown only now.
  terahaul token list
  terahaul token extend ID --expire-days 365
      It ends so many days from now, also when it has expired: what it has sent
      in part can be sent on with it alone.
  terahaul token revoke ID

Scopes: send (make and manage own transfers), receive (read every transfer),
own (everything).";

/// After the flags of `login`.
pub const LOGIN: &str = "\
Examples:
  terahaul login 'https://127.0.0.1:8750/#sha256=…'
      Asks for the token without showing it.
  terahaul login 'https://127.0.0.1:8750/#sha256=…' < token-file
      Or reads it from stdin. A token is never given on the command line, where
      others could see it.

Stored in $XDG_CONFIG_HOME/terahaul/login.json (or ~/.config), readable by its
owner only. Several depots may be stored: the last login is used, and --depot
picks another.";

/// `terahaul help exit-codes`.
pub const EXIT_CODES: &str = "\
Exit codes, the same for every command:

    0  ok             all went well
    1  unexpected     something that is not foreseen here; the message says what
    2  usage          the command line or the settings cannot be used, files are
                      in the way, or what was named may not be written to
    3  unreachable    the depot or the other host cannot be reached, or the
                      network was lost
    4  denied         the token, the link or the certificate was not accepted
    5  not_found      no such transfer, token or file, or it has expired
    6  no_space       a disk, a quota or another limit has no room
    7  partial        some entries failed and were named; the rest arrived
    8  verify_failed  what was checked is not what was signed
   24  vanished       cp: some files were gone when they were to be read; the
                      rest arrived
  130  interrupted    ended by Ctrl-C, a request to terminate or the end of its
                      terminal; run the same command again to resume

With --json the last line is an object with \"event\":\"error\", the code's name
and its number, when the exit code is none of 0, 7 and 24; 'cp --max-delete'
that has stopped says so, with 7. 'lab path' ends with the code of the command
it ran; 'lab compare' ends with 7 where a run has failed, and with 8 where what
arrived is not what was sent.";
