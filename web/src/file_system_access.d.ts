/** What Chromium offers beyond TypeScript's library. */
declare function showDirectoryPicker(options?: { mode?: "read" | "readwrite" }): Promise<FileSystemDirectoryHandle>;

interface FileSystemCreateWritableOptions {
  mode?: "exclusive" | "siloed";
}
