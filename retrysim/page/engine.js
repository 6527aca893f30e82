// play yields the scenes of a link, which the server simulates.
export async function* play(link, signal) {
	const response = await fetch("play", {method: "POST", body: link, signal});
	if (!response.ok) throw new Error(await response.text());
	let rest = "";
	for await (const text of chunks(response.body.pipeThrough(new TextDecoderStream()).getReader())) {
		const lines = (rest + text).split("\n");
		rest = lines.pop();
		for (const line of lines) yield JSON.parse(line);
	}
}

async function* chunks(reader) { // not every browser can iterate over a stream
	for (let part; !(part = await reader.read()).done;) yield part.value;
}
