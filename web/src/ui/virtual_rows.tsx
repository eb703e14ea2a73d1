import type { ComponentChildren, ComponentProps } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A row's height, as in the style sheet: it grows with the text. */
const ROW_REM = 2.5;
/** Rows above and below what is seen, so that scrolling shows no gaps. */
const MARGIN = 8;
/** Browsers cannot lay out elements much taller than this. */
const TALLEST = 16_000_000;

interface Props {
  count: number;
  /** Scrolled into view when it changes, as keys move the selection. It is there also when the rest was scrolled away from it: what has the
   * focus may name it. */
  focus?: number | undefined;
  row: (index: number) => ComponentChildren;
  attributes?: ComponentProps<"div">;
}

/** A list of any length, of which only the visible rows exist. */
export function VirtualRows({ count, focus, row, attributes }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const some = useRef<HTMLDivElement>(null);
  const [rowHeight, setRowHeight] = useState(measuredRow);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      setRowHeight(measuredRow());
    });
    observer.observe(element);
    // Rows may change their height without the list's doing so.
    if (some.current) observer.observe(some.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || focus === undefined) return;
    const at = focus * rowHeight;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = at + rowHeight - element.clientHeight;
  }, [focus, rowHeight]);

  const shown = Math.min(count, Math.floor(TALLEST / rowHeight));
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN);
  const last = Math.min(shown, Math.ceil((top + height) / rowHeight) + MARGIN);
  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index++) rows.push(row(index));
  const apart = focus !== undefined && focus < shown && (focus < first || focus >= last);
  return (
    <>
      <div {...attributes} ref={box} class="rows" onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div class="rows-space" role="presentation" style={{ height: `${shown * rowHeight}px` }}>
          <div ref={some} role="presentation" style={{ transform: `translateY(${first * rowHeight}px)` }}>
            {rows}
          </div>
          {apart && (
            <div role="presentation" class="rows-apart" style={{ transform: `translateY(${focus * rowHeight}px)` }}>
              {row(focus)}
            </div>
          )}
        </div>
      </div>
      {shown < count && <p class="quiet">Only the first {shown.toLocaleString("en")} are listed here.</p>}
    </>
  );
}

/** In pixels, at the text size that the browser is set to. */
function measuredRow(): number {
  return ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);
}
