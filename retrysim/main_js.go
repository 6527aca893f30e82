package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// main plays the link that is its argument, as a page's program: its lines go to
// standard output.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "retrysim: want a link")
		os.Exit(2)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	if err := play(context.Background(), os.Args[1], e.Encode); err != nil {
		fmt.Fprintln(os.Stderr, "retrysim:", err)
		os.Exit(1)
	}
}
