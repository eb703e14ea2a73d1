// One file by curl over TLS, against nginx serving the same bytes over TLS.
import { compare, report, timed } from "../measure.mjs";
import { removeTransfer, send } from "../depot.mjs";
import { nginx } from "../peers.mjs";
import { randomFile } from "./file.mjs";

export async function download({ own, work, depot, runs, gib, children }) {
  const source = randomFile(work, gib);
  const keys = `${depot.data}/keys`;
  const web = await nginx(own, `${work}/src`, `${keys}/tls-cert.pem`, `${keys}/tls-key.pem`);
  children.push(web.child);
  const { link } = send(depot, source);
  const [, base, id, secret] = /^(https:\/\/[^/]+)\/t\/([^#]+)#([^&]+)/.exec(link);
  const curl = "curl -sSkf --noproxy 127.0.0.1 --http1.1 -o /dev/null --tls13-ciphers TLS_AES_128_GCM_SHA256";
  const results = await compare(
    [
      { name: "terahaul", run: () => timed(`${curl} -H 'Authorization: Bearer ${secret}' ${base}/api/v1/transfers/${id}/files/0`) },
      { name: "nginx", run: () => timed(`${curl} https://127.0.0.1:${web.port}/file`) },
    ],
    runs,
  );
  removeTransfer(depot, link);
  return report(`download by curl over TLS, ${gib} GiB`, results, "terahaul", { nginx: 0.9 });
}
