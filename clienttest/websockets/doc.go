// Package websockets has the example of docs/clients.md that connects by WebSocket, and
// runs it with the real clients against a server on the loopback that refuses handshakes.
package websockets
