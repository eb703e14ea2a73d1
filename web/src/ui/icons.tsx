import type { ComponentChildren } from "preact";

function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      {children}
    </svg>
  );
}

export const FolderIcon = () => (
  <Icon>
    <path d="M2.5 5.5a1 1 0 0 1 1-1h4l2 2h7a1 1 0 0 1 1 1v7.5a1 1 0 0 1-1 1h-13a1 1 0 0 1-1-1z" />
  </Icon>
);
export const FileIcon = () => (
  <Icon>
    <path d="M5 2.5h6.5l4 4V16.5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-13a1 1 0 0 1 1-1z" />
    <path d="M11.5 2.5v4h4" />
  </Icon>
);
export const LinkIcon = () => (
  <Icon>
    <path d="M8.5 11.5a3 3 0 0 0 4.3 0l3-3a3 3 0 0 0-4.3-4.3l-1 1" />
    <path d="M11.5 8.5a3 3 0 0 0-4.3 0l-3 3a3 3 0 0 0 4.3 4.3l1-1" />
  </Icon>
);
export const ChevronIcon = () => (
  <Icon>
    <path d="m8 5.5 4.5 4.5L8 14.5" />
  </Icon>
);
export const CheckIcon = () => (
  <Icon>
    <path d="m4.5 10.5 3.5 3.5 7.5-8" />
  </Icon>
);
export const WarningIcon = () => (
  <Icon>
    <path d="M10 3 1.8 17h16.4z" />
    <path d="M10 8v4M10 14.4v.1" />
  </Icon>
);
export const UploadIcon = () => (
  <Icon>
    <path d="M10 13V3.5M6 7.2l4-4 4 4" />
    <path d="M3 12.5v3a1 1 0 0 0 1 1h12a1 1 0 0 0 1-1v-3" />
  </Icon>
);
export const DownloadIcon = () => (
  <Icon>
    <path d="M10 3.5V13M6 9.2l4 4 4-4" />
    <path d="M3 12.5v3a1 1 0 0 0 1 1h12a1 1 0 0 0 1-1v-3" />
  </Icon>
);
export const CloseIcon = () => (
  <Icon>
    <path d="m5.5 5.5 9 9M14.5 5.5l-9 9" />
  </Icon>
);
