package clienterr

import "reflect"

// SQLState judges a five-character SQLSTATE code (ISO/IEC 9075; the PostgreSQL manual,
// appendix A), and what else PostgreSQL says in fields of err, which has the code.
func SQLState(code string, err error) Class {
	if len(code) != 5 {
		return Unknown
	}
	switch {
	case contains("08001 08004 57P03", code):
		return Unprocessed
	case code == "0A000" && fieldText(err, "Routine") == "RevalidateCachedQuery":
		// "cached plan must not change result type", in the server's language: a migration
		// has changed the table, and the driver drops its statement.
		return Unprocessed
	case code == "23505" && (fieldText(err, "SchemaName") == "pg_catalog" || fieldText(err, "Schema") == "pg_catalog"):
		// CREATE … IF NOT EXISTS of two replicas at once. The next one finds what the first has made.
		return Transient
	case contains(sqlTransient, code):
		return Transient
	case contains(sqlPermanent, code):
		return Permanent
	case contains(sqlUnknown, code):
		return Unknown
	case code[:2] == "53": // insufficient resources
		return Throttled
	case contains(sqlPermanentClasses, code[:2]):
		return Permanent
	}
	return Unknown
}

const (
	// Transient are serialization failures and deadlocks, lost connections, shutdowns, time
	// limits of transactions, locks, objects in use, a read-only server, old snapshots and
	// errors of the system.
	sqlTransient = "40001 40P01 08000 08003 08006 08007 40003 57P01 57P02 57P05 25006 25P03 25P04 55P03 55006 58000 58030 72000"

	// Permanent are a database that was dropped, a parameter that cannot be changed now, an
	// enum's value in the transaction that has added it, and PL/pgSQL's errors: raised ones,
	// no row, several rows, and a failed ASSERT.
	sqlPermanent = "57P04 55P02 55P04 P0000 P0001 P0002 P0003 P0004"

	// Unknown is the answer to what follows a failed statement: that one's error decides.
	sqlUnknown = "25P02"

	// sqlPermanentClasses are: triggered action, feature, initiation of a transaction,
	// locator, grantor, role, diagnostics, XQuery, CASE, cardinality, data, constraint,
	// cursor's state, transaction's state, triggered change, authorization, privileges,
	// termination of a transaction, routine (three), cursor's name, savepoint, catalog's
	// and schema's name, syntax or access rule, check option, program limits.
	sqlPermanentClasses = "09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 27 28 2B 2D 2F 34 38 39 3B 3D 3F 42 44 54"
)

// fieldText returns the text in a field of the struct that err is or points to, "" if there
// is none.
func fieldText(err error, name string) string {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return ""
	}
	if f := v.FieldByName(name); f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}

// faultySQLState judges a SQLSTATE: about the request are classes 21 (cardinality), 22
// (data), 23 (constraint), 44 (check option) and 54 (program limits, such as a key that
// is too long for an index), and what a function of the database has raised or not found.
func faultySQLState(code string, err error) (faulty, known bool) {
	if len(code) != 5 {
		return false, false
	}
	if SQLState(code, err) != Permanent {
		return false, true
	}
	return contains("21 22 23 44 54", code[:2]) || contains("P0001 P0002 P0003", code), true
}
