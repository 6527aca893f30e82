package clienterr

import "reflect"

// SQLState judges a five-character SQLSTATE code, and what else PostgreSQL says in fields of
// err, which has the code.
func SQLState(code string, err error) Facts {
	switch {
	case len(code) != 5:
		return 0
	case code == "57P03" && fieldText(err, "SeverityUnlocalized", "Severity") == "ERROR":
		// Another server, to which this one has connected, does not take connections yet.
		return Facts(Transient)
	case code == "0A000" && fieldText(err, "Routine") == "RevalidateCachedQuery":
		// "cached plan must not change result type", in the server's language: a migration
		// has changed the table, and the driver drops its statement.
		return Facts(Unprocessed)
	case code == "0A000" && oneOf("call_enum_check_hook call_bool_check_hook GetSerializableTransactionSnapshot", fieldText(err, "Routine")):
		// A standby refuses the isolation level SERIALIZABLE, and READ WRITE.
		return Facts(Transient) | Demoted
	case code == "23505" && fieldText(err, "SchemaName", "Schema") == "pg_catalog":
		// CREATE … IF NOT EXISTS of two replicas at once. The next one finds what the first has made.
		return Facts(Transient) | RolledBack
	}
	return sqlstateCodes.word("", code)
}

// fieldText returns the first text that is not empty in fields of the struct that err is or
// points to, "" if there is none.
func fieldText(err error, names ...string) string {
	for _, name := range names {
		if s := text(Field(reflect.ValueOf(err), name)); s != "" {
			return s
		}
	}
	return ""
}
