// The Linux source tree of Debian's linux-source package: 79,000 small files.
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { compare, remove, report, timed } from "../measure.mjs";
import { client, removeTransfer, send } from "../depot.mjs";

export const GOALS = { "rsync -a over ssh": 2.2, "tar | ssh tar": 1.7, "rsync daemon (clear)": 1.2 };

export function linuxTree(work) {
  const dir = `${work}/tree`;
  if (!existsSync(dir)) {
    const archive = readdirSync("/usr/src").find((name) => /^linux-source-.*\.tar\.xz$/.test(name));
    if (!archive) throw new Error("the tree needs Debian's linux-source package: apt-get install linux-source");
    mkdirSync(dir);
    timed(`tar xf /usr/src/${archive} -C ${dir} --strip-components=1`);
  }
  return dir;
}

export async function tree({ work, depot, ssh, rsyncd, runs }) {
  const source = linuxTree(work);
  const target = `${work}/dst`;
  const before = () => (remove(target), mkdirSync(target));
  const put = await compare(
    [
      { name: "terahaul", before, run: () => send(depot, source), after: (r) => removeTransfer(depot, r.link) },
      { name: "rsync -a over ssh", before, run: () => timed(`rsync -a -e '${ssh.ssh}' ${source} 127.0.0.1:${target}/`) },
      { name: "tar | ssh tar", before, run: () => timed(`tar cf - -C ${work} tree | ${ssh.ssh} 127.0.0.1 tar xf - -C ${target}`) },
      { name: "rsync daemon (clear)", before, run: () => timed(`rsync -a ${source} ${rsyncd.url}/dst/`, rsyncd.env) },
    ],
    runs,
  );
  const results = { send: report("send, Linux source tree", put, "terahaul", GOALS) };
  const { link } = send(depot, source);
  const got = await compare(
    [
      { name: "terahaul", before, run: () => client(depot, `receive --quiet '${link}' ${target}`) },
      { name: "rsync -a over ssh", before, run: () => timed(`rsync -a -e '${ssh.ssh}' 127.0.0.1:${source} ${target}/`) },
      { name: "tar | ssh tar", before, run: () => timed(`${ssh.ssh} 127.0.0.1 tar cf - -C ${work} tree | tar xf - -C ${target}`) },
      { name: "rsync daemon (clear)", before, run: () => timed(`rsync -a ${rsyncd.url}/tree ${target}/`, rsyncd.env) },
    ],
    runs,
  );
  results.receive = report("receive, Linux source tree", got, "terahaul", GOALS);
  before();
  client(depot, `receive --quiet '${link}' ${target}`);
  timed(`diff -r --no-dereference ${source} ${target}/tree`);
  removeTransfer(depot, link);
  remove(target);
  return results;
}
