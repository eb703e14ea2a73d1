import { useState } from "preact/hooks";
import { depot, paths } from "../api/depot";
import type { Transfer } from "../api/types";
import { Download } from "../ui/download";
import { DownloadIcon } from "../ui/icons";
import { Notice } from "../ui/notice";

/** The receipt of a transfer, for whoever is signed in: the link to it, and why it was not given when that was followed. */
export function useReceipt({ id, name }: Pick<Transfer, "id" | "name">) {
  const [problem, setProblem] = useState<string | null>(null);
  const allowed = async () => {
    setProblem(null);
    try {
      const { state } = await depot.transfer(id);
      if (state === "open") setProblem("The receipt cannot be downloaded yet: more is being sent just now.");
      return state !== "open";
    } catch (error) {
      setProblem(`The receipt cannot be downloaded: ${(error as Error).message}`);
      return false;
    }
  };
  return {
    link: <Download class="button" href={paths.receipt(id)} name={`${name}.receipt.json`} allowed={allowed}><DownloadIcon />Receipt</Download>,
    problem: problem && <Notice kind="error">{problem}</Notice>,
  };
}
