/** A progress bar. The figures beside it are what is read; `label` names it for screen readers. */
export function Bar({ value, label, small = false }: { value: number; label: string; small?: boolean }) {
  const now = Math.round(Math.min(1, Math.max(0, value)) * 100);
  return (
    <div class={small ? "bar small" : "bar"} role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={now}>
      <div style={{ transform: `scaleX(${Math.min(1, Math.max(0, value))})` }} />
    </div>
  );
}
