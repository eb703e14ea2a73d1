/** How much of `total` is there, in 0..1. What is on its way counts as well, but for the last hundredth: that is for what has arrived. */
export function share(arrived: number, onItsWay: number, total: number): number {
  return arrived >= total ? 1 : Math.min(0.99, (arrived + onItsWay) / total);
}
