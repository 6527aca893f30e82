package oracle_test

import (
	"fmt"
	"maps"
	"reflect"

	_ "github.com/SAP/go-hdb/driver" // has a type that is internal: see hidden
	"github.com/godror/godror"
	"github.com/modern-go/reflect2"
	"github.com/nakagami/firebirdsql"
	"github.com/snowflakedb/gosnowflake"
	"github.com/trinodb/trino-go-client/trino"
	"github.com/vertica/vertica-sql-go"
	_ "github.com/ydb-platform/ydb-go-sdk/v3" // likewise
)

func init() {
	maps.Copy(vendors, map[string]vendor{
		"firebird": {clients: []client{
			{"firebirdsql", func(s sample) error {
				return &firebirdsql.FbError{GDSCodes: []int{s.number}, SQLState: s.word, Message: "x"}
			}},
		}},
		"hana": {clients: []client{
			{"go-hdb", func(s sample) error {
				return hidden("github.com/SAP/go-hdb/driver/internal/protocol", "HdbError", "errorCode", s.number)
			}},
		}},
		"snowflake": {clients: []client{
			{"gosnowflake", func(s sample) error { return &gosnowflake.SnowflakeError{Number: s.number, Message: "x"} }},
		}},
		"trino": {clients: []client{
			{"trino-go-client", func(s sample) error {
				return &trino.ErrQueryFailed{StatusCode: 200, Reason: &trino.ErrTrino{ErrorCode: s.number}}
			}},
			{"trino-go-client's rows", func(s sample) error { return trino.ErrTrino{ErrorCode: s.number} }},
		}},
		"trinotype": {clients: []client{
			{"trino-go-client", func(s sample) error { return &trino.ErrTrino{ErrorCode: 16777216, ErrorType: s.code} }},
		}},
		"ydb": {clients: []client{
			{"ydb-go-sdk", func(s sample) error {
				return hidden("github.com/ydb-platform/ydb-go-sdk/v3/internal/xerrors", "operationError", "code", s.number)
			}},
		}},
	})
	also("oracle", client{"godror", func(s sample) error {
		e := &godror.OraErr{}
		setHidden(e, "code", s.number)
		return e
	}})
	also("sqlstate",
		client{"vertica-sql-go", func(s sample) error { return &vertigo.VError{SQLState: s.code, Message: "x"} }},
		client{"firebirdsql", func(s sample) error { return &firebirdsql.FbError{SQLState: s.code, Message: "x"} }},
	)
}

// also adds clients of a vendor.
func also(name string, clients ...client) {
	v := vendors[name]
	v.clients = append(v.clients, clients...)
	vendors[name] = v
}

// hidden returns an error whose type is in an internal package, with a field of a value. It is
// linked because the library's exported package makes such errors of a server's answers.
func hidden(pkg, name, field string, value any) error {
	t := reflect2.TypeByPackageName(pkg, name)
	if t == nil {
		panic(fmt.Sprintf("oracle: no type %s.%s", pkg, name))
	}
	e := reflect.New(t.Type1()).Interface()
	setHidden(e, field, value)
	return e.(error)
}
