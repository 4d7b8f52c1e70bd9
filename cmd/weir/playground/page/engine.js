// Loads the engine: Go's WebAssembly, compressed. A server may have unpacked it already.

export async function load() {
  const response = await fetch('playground.wasm.gz');
  if (!response.ok) throw new Error(`playground.wasm.gz: the server says ${response.status}`);
  let bytes = await response.arrayBuffer();
  const start = new Uint8Array(bytes, 0, 2);
  if (start[0] === 0x1f && start[1] === 0x8b) {
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    bytes = await new Response(unpacked).arrayBuffer();
  }
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(bytes, go.importObject);
  go.run(instance); // sets globalThis.weir before it waits for calls
  return globalThis.weir;
}
