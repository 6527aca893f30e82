package clienterr

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

type seconds int

type kiotaHeader struct{}

func (*kiotaHeader) Get(string) []string { return nil }

// Rule 4 of CLIENTS.md has the fields that are read, and no others.
func TestThePageNamesTheFields(t *testing.T) {
	page, err := os.ReadFile("../../clienttest/CLIENTS.md")
	if err != nil {
		t.Skip("only the root module is there: ", err)
	}
	_, rule, _ := strings.Cut(string(page), "4. By its exported fields:")
	rule, _, _ = strings.Cut(rule, "\n5. ")
	rule = strings.Join(strings.Fields(rule), " ")
	rule, unread, found := strings.Cut(rule, " `Code` is not read")
	if !found {
		t.Fatal("the page does not say which fields are not read")
	}
	items := strings.Split(rule+unread, "; - ")
	if len(items) != 5 {
		t.Fatalf("the rule has %d items, want 5: %q", len(items), items)
	}
	var named []string
	for _, m := range regexp.MustCompile("`([A-Z]\\w*)`").FindAllStringSubmatch(rule+unread, -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	named = slices.Compact(named)
	named = slices.DeleteFunc(named, func(name string) bool { return name == "Code" }) // which is only looked at beside Status
	read := strings.Fields(strings.Join(namesIn(t, "resolve.go", "isStatus", "isHeader"), " "))
	read = slices.DeleteFunc(append(read, "RetryAfter", "RetryAfterMs", "RetryAfterSeconds"), func(name string) bool { return name == "Code" })
	slices.Sort(read)
	if read = slices.Compact(read); !slices.Equal(named, read) {
		t.Errorf("the page names %q, read are %q", named, read)
	}

	n, text, wait := 0, "", time.Second
	values := []any{0, int64(0), uint8(0), seconds(0), &n, "", &text, 1.5, wait, &wait, []int(nil), http.Header{}, &kiotaHeader{}, new(any)}
	integers := values[:5]
	field := func(name string, of any) reflect.StructField {
		return reflect.StructField{Name: name, Type: reflect.TypeOf(of)}
	}
	reads := func(fields ...reflect.StructField) (k Type) {
		if k := resolve(reflect.StructOf(fields), nil); k != nil {
			return *k
		}
		return k
	}
	for _, name := range named {
		for _, v := range values {
			f, beside, read, accepts := field(name, v), field("StatusCode", 0), false, integers
			switch {
			case name == "Actual":
				read, accepts = reads(f, field("Expected", []int(nil))).status != nil, append(slices.Clone(integers[:4]), wait)
			case name == "Expected":
				read, accepts = reads(f, field("Actual", 0)).status != nil, []any{[]int(nil)}
			case strings.Contains(items[2], "`"+name+"`"):
				read, accepts = reads(f, beside).header != nil, []any{http.Header{}, &kiotaHeader{}}
			case name == "RetryAfterMs":
				read, accepts = reads(f).after != nil, []any{0, int64(0), uint8(0), &n}
			case name == "RetryAfterSeconds":
				read, accepts = reads(f).after != nil, []any{0, int64(0), uint8(0), &n, "", &text, wait, &wait}
			case strings.Contains(items[3], "`"+name+"`"):
				read, accepts = reads(f).after != nil, []any{"", &text, wait, &wait}
			default: // a Duration is an integer
				read, accepts = reads(f).status != nil, append(slices.Clone(integers), wait, &wait)
			}
			want := slices.ContainsFunc(accepts, func(a any) bool { return reflect.TypeOf(a) == f.Type })
			if read != want {
				t.Errorf("%s %T: read %t, the page says %t", name, v, read, want)
			}
		}
	}
	for _, v := range values { // the last item
		if read, want := reads(field("Code", v)).codes != nil, slices.Contains([]any{0, int64(0), seconds(0), wait}, v); read != want {
			t.Errorf("Code %T: read %t, want %t", v, read, want)
		}
	}
	if k := reads(field("Anything", &http.Response{})); k.status == nil || k.header == nil {
		t.Error("a response is not read")
	}
	if reads(field("Code", 0)).status != nil || reads(field("Code", 0), field("Status", 0)).status != nil {
		t.Error("Code, or a Status beside it, is read")
	}
}

// namesIn returns the texts in funcs of a file that are the names of fields.
func namesIn(t *testing.T, file string, funcs ...string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && slices.Contains(funcs, d.Name.Name) {
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					name, _ := call.Fun.(*ast.Ident)
					return name == nil || name.Name == "fieldOf" // follow and isHTTP name those of net/http
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					names = append(names, s)
				}
				return true
			})
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(s string) bool { return s == "" || s == "net/http" })
}
