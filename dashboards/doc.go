// Package dashboards has a Grafana dashboard, grafana.json, and rules for Prometheus,
// rules.yml, for the metrics of package otelretry. They use the default names of the
// OpenTelemetry exporter for Prometheus. docs/observability.md says which query answers
// which question, docs/runbook.md what to do when an alert fires, and README.md what was
// measured.
//
// A new alert needs a rule, a case in rules_test.yml, a section of docs/runbook.md and a row
// in docs/observability.md.
//
// There is no code but tests. One runs the library, scrapes it, and compares the
// metrics, labels and values in every query with the scrape. Others run the cases of
// rules_test.yml with promtool, and with RETRY_LONG=1 those of cases_test.go as well:
// the alerts must hold for any interval and phase of scrapes, and these cases are too
// many to write by hand. This keeps the files that are made of them in out:
//
//	RETRY_LONG=1 go test -run TestAlerts -artifacts -outputdir out ./dashboards
package dashboards
