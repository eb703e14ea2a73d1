// The peers' real servers, on loopback, with files in memory, started and stopped by the benchmark.
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { start } from "./measure.mjs";

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** sshd with keys of its own; returns the ssh command line that reaches it. */
export async function sshd(work) {
  const dir = `${work}/ssh`;
  mkdirSync(dir, { recursive: true });
  chmodSync(dir, 0o700);
  mkdirSync("/run/sshd", { recursive: true });
  for (const key of ["host", "user"]) {
    spawnSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/${key}`]);
  }
  const port = await freePort();
  spawnSync("cp", [`${dir}/user.pub`, `${dir}/authorized`]);
  writeFileSync(
    `${dir}/sshd_config`,
    `Port ${port}\nListenAddress 127.0.0.1\nHostKey ${dir}/host\nAuthorizedKeysFile ${dir}/authorized\n` +
      `StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n`,
  );
  const { child } = await start("/usr/sbin/sshd", ["-D", "-f", `${dir}/sshd_config`]);
  const options = `-F none -i ${dir}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -c aes128-gcm@openssh.com`;
  await reachable(port);
  return { child, port, ssh: `ssh ${options} -p ${port}`, scp: `scp -q ${options} -P ${port}` };
}

/**
 * An rsync daemon for the folder `data`: neither encrypts nor proves. It is root, and loopback is everybody's: who has not
 * the password in `env` reads and writes nothing.
 */
export async function rsyncd(work, data) {
  const port = await freePort();
  const password = randomBytes(16).toString("hex");
  writeFileSync(`${work}/rsyncd.secrets`, `bench:${password}\n`, { mode: 0o600 });
  writeFileSync(
    `${work}/rsyncd.conf`,
    `use chroot = no\nuid = root\ngid = root\n[data]\npath = ${data}\nread only = no\n` +
      `auth users = bench\nsecrets file = ${work}/rsyncd.secrets\n`,
  );
  const { child } = await start("rsync", [
    "--daemon", "--no-detach", "--address=127.0.0.1", `--port=${port}`, `--config=${work}/rsyncd.conf`,
  ]);
  await reachable(port);
  return { child, port, url: `rsync://bench@127.0.0.1:${port}/data`, env: { RSYNC_PASSWORD: password } };
}

/** nginx over TLS, serving `root`. */
export async function nginx(work, root, cert, key) {
  const port = await freePort();
  writeFileSync(
    `${work}/nginx.conf`,
    `daemon off; user root; worker_processes auto; error_log stderr; pid ${work}/nginx.pid;\n` +
      `events { worker_connections 256; }\nhttp { access_log off; sendfile on; tcp_nopush on;\n` +
      `server { listen 127.0.0.1:${port} ssl; ssl_protocols TLSv1.3; ssl_certificate ${cert}; ssl_certificate_key ${key};\n` +
      `ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; root ${root}; } }\n`,
  );
  const { child } = await start("nginx", ["-c", `${work}/nginx.conf`, "-p", work]);
  await reachable(port);
  return { child, port };
}

async function reachable(port) {
  const { connect } = await import("node:net");
  for (let tries = 0; tries < 200; tries++) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => (socket.destroy(), resolve(true)));
      socket.on("error", () => resolve(false));
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nothing listens on port ${port}`);
}
