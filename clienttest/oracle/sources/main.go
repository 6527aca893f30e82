// Command sources compares the tables of internal/clienterr/oracle with the sources that
// are Go modules, and writes what is new there into the tables:
//
//	cd clienttest && GOWORK=off go run ./oracle/sources [table …]
//
// A new code becomes a row with the verdict of the source. In a row whose column source is
// empty the name and the verdict follow the source; other rows are by hand, and stay. Codes
// that the source no longer has are printed, and stay too: servers are older than clients.
// To take a newer version of a source, change it in modules, and in the table's first line.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A row is a code as a source has it.
type row struct{ code, name, verdict string }

// A source is where the rows of a table come from.
type source struct {
	table  string // file, without .tsv
	module string // path@version
	read   func(dir string) ([]row, error)
}

var sources = []source{
	{"aws", "github.com/aws/aws-sdk-go@v1.55.8", aws},
	{"azure-blob", "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob@v1.8.3", azureBlob},
	{"kafka", "github.com/twmb/franz-go@v1.22.2", kafka},
	{"kubernetes", "k8s.io/apimachinery@v0.37.0", kubernetes},
	{"mysql", "github.com/pingcap/tidb/pkg/parser@v0.0.0-20260418072757-ce92298d1124", mysql},
	{"nats", "github.com/nats-io/nats-server/v2@v2.15.3", nats},
	{"texts", "gorm.io/gorm@v1.31.2", sentinels("errors.go")},
	{"texts", "go.etcd.io/bbolt@v1.5.0", sentinels("errors/errors.go")},
	{"sqlstate", "github.com/jackc/pgerrcode@v0.0.0-20250907135507-afb5586c32a6", sqlstate},
}

func main() {
	failed := false
	for _, s := range sources {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], s.table) {
			continue
		}
		if err := s.update(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.table, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (s source) update() error {
	dir, err := download(s.module)
	if err != nil {
		return err
	}
	rows, err := s.read(dir)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("the source has no codes")
	}
	name := filepath.Join("..", "internal", "clienterr", "oracle", s.table+".tsv")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	now := merge(s.table, string(old), rows)
	if now == string(old) {
		return nil
	}
	return os.WriteFile(name, []byte(now), 0o666)
}

// merge returns the text of a table with rows in it, and prints what it changes.
func merge(table, old string, rows []row) string {
	of := map[string]row{}
	for _, r := range rows {
		of[r.code] = r
	}
	seen, byHand := map[string]bool{}, map[string]bool{}
	lines := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		columns := strings.Split(line, "\t")
		seen[columns[0]] = true
		r, ok := of[columns[0]]
		hand := columns[3] != ""
		byHand[columns[0]] = hand
		switch {
		case !ok && !hand && !strings.HasSuffix(columns[0], "*"):
			fmt.Printf("%s: the source has no %s\n", table, columns[0])
		case ok && !hand && (r.name != columns[1] || r.verdict != columns[2]):
			fmt.Printf("%s: %s: %s %s, was %s %s\n", table, r.code, r.name, r.verdict, columns[1], columns[2])
			columns[1], columns[2] = r.name, r.verdict
			lines[i] = strings.Join(columns, "\t")
		}
	}
	for _, r := range rows {
		// What is by hand for all services of AWS is not undone for one of them.
		if !seen[r.code] && !byHand[r.code[strings.LastIndex(r.code, " ")+1:]] {
			seen[r.code] = true
			fmt.Printf("%s: %s is new: %s %s\n", table, r.code, r.name, r.verdict)
			lines = append(lines, strings.Join([]string{r.code, r.name, r.verdict, ""}, "\t"))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// download returns the folder with the files of a module.
func download(module string) (dir string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout = &out
	failed := cmd.Run()
	var answer struct{ Dir, Error string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return "", errors.Join(failed, err)
	}
	if answer.Error != "" {
		return "", errors.New(answer.Error)
	}
	return answer.Dir, failed
}
