const program = WebAssembly.compileStreaming(fetch("retrysim.wasm"));

// play yields the scenes of a link, which a worker simulates. Nothing but its end can
// stop a worker that computes.
export async function* play(link, signal) {
	const worker = new Worker("worker.js");
	const messages = [];
	let arrived;
	const add = message => { messages.push(message); arrived?.(); };
	worker.onmessage = event => add(event.data);
	worker.onerror = event => { event.preventDefault(); add({failed: event.message || "the simulator cannot be started"}); };
	const abort = () => add({failed: "aborted"});
	signal.addEventListener("abort", abort);
	try {
		worker.postMessage({program: await program, link});
		while (true) {
			if (messages.length === 0) await new Promise(resolve => { arrived = resolve; });
			const message = messages.shift();
			if (message.failed) throw new Error(message.failed);
			if (message.ended) return;
			yield JSON.parse(message.line);
		}
	} finally {
		signal.removeEventListener("abort", abort);
		worker.terminate();
	}
}
