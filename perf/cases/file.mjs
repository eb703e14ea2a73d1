// One 4 GiB file of random bytes, out and back, against scp and rsync.
import { existsSync, mkdirSync } from "node:fs";
import { compare, cpuOf, remove, report, timed } from "../measure.mjs";
import { client, removeTransfer, send } from "../depot.mjs";

export const GOALS = { "scp aes128-gcm": 2.0, "rsync -W over ssh": 2.0, "rsync daemon (clear)": 0.85 };

export function randomFile(work, gib) {
  const path = `${work}/src/file`;
  mkdirSync(`${work}/src`, { recursive: true });
  if (!existsSync(path)) {
    timed(`openssl enc -aes-128-ctr -pass pass:terahaul -nosalt -pbkdf2 < /dev/zero 2>/dev/null | head -c ${gib}G > ${path} || true`);
  }
  return path;
}

export async function file({ work, depot, ssh, rsyncd, runs, gib }) {
  const source = randomFile(work, gib);
  const target = `${work}/dst`;
  const before = () => (remove(target), mkdirSync(target));
  const far = (child, act) => {
    const start = cpuOf(child.pid);
    const result = act();
    return { ...result, far: cpuOf(child.pid) - start };
  };
  const peers = (from, to, daemonFrom, daemonTo) => [
    { name: "scp aes128-gcm", before, run: () => far(ssh.child, () => timed(`${ssh.scp} ${from} ${to}`)) },
    { name: "rsync -W over ssh", before, run: () => far(ssh.child, () => timed(`rsync -W -e '${ssh.ssh}' ${from} ${to}`)) },
    { name: "rsync daemon (clear)", before, run: () => far(rsyncd.child, () => timed(`rsync -W ${daemonFrom} ${daemonTo}`, rsyncd.env)) },
  ];
  const put = await compare(
    [
      { name: "terahaul", before, run: () => send(depot, source), after: (r) => removeTransfer(depot, r.link) },
      ...peers(source, `127.0.0.1:${target}/`, source, `${rsyncd.url}/dst/`),
    ],
    runs,
  );
  const results = { send: report(`send, ${gib} GiB file`, put, "terahaul", GOALS) };
  const { link } = send(depot, source);
  const got = await compare(
    [
      { name: "terahaul", before, run: () => client(depot, `receive --quiet '${link}' ${target}`), after: () => timed(`cmp ${source} ${target}/file`) },
      ...peers(`127.0.0.1:${source}`, `${target}/`, `${rsyncd.url}/src/file`, `${target}/`),
    ],
    runs,
  );
  results.receive = report(`receive, ${gib} GiB file`, got, "terahaul", GOALS);
  removeTransfer(depot, link);
  remove(target);
  const perGb = (r) => `${(r.cpu / (gib * 1.0737)).toFixed(2)} / ${(r.far / (gib * 1.0737)).toFixed(2)}`;
  console.log(`\nCPU seconds a GB, here / far end: terahaul send ${perGb(put.get("terahaul"))}, receive ${perGb(got.get("terahaul"))}, scp ${perGb(put.get("scp aes128-gcm"))}`);
  results.ours = { send: put.get("terahaul").wall, receive: got.get("terahaul").wall };
  return results;
}
