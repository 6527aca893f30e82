// Package behaviour shows that a call does the same after retryvet -fix as before.
//
//	go test ./retryvet/behaviour
//
// Package before has calls of other libraries, and package after what -fix makes of
// them. The tests write after again and compare it, and run both on the same failing
// service: as many calls, at the same times, in a testing/synctest bubble.
//
// What may live here: samples whose waits have no jitter, and their tests. It is a
// module of its own because it needs the other libraries.
package behaviour
