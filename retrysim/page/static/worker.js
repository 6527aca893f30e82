"use strict";
importScripts("wasm_exec.js"); // of Go, in which output is a file

onmessage = async event => {
	const go = new Go(), decoder = new TextDecoder();
	let rest = "";
	fs.writeSync = (file, bytes) => {
		const lines = (rest + decoder.decode(bytes, {stream: true})).split("\n");
		rest = lines.pop();
		for (const line of lines) postMessage(file === 1 ? {line} : {failed: line});
		return bytes.length;
	};
	go.argv = ["retrysim", event.data.link];
	await go.run(await WebAssembly.instantiate(event.data.program, go.importObject));
	postMessage({ended: true});
};
