.PHONY: check api dashboard fuzz bench

# All that CI runs.
check:
	.ci/run

# Writes down the exported API after a change of it.
api:
	go run ./tools/api >api.txt

# Writes the dashboard after a change of its program.
dashboard:
	go run ./dashboards >dashboards/grafana.new
	mv dashboards/grafana.new dashboards/grafana.json

# Ten minutes of fuzzing; what it finds lands in testdata.
fuzz:
	go test -run '^$$' -fuzz FuzzBackoffs -fuzztime 3m .
	go test -run '^$$' -fuzz FuzzBudgets -fuzztime 3m .
	go test -run '^$$' -fuzz FuzzErrorTrees -fuzztime 3m .
	go test -run '^$$' -fuzz FuzzVirtual -fuzztime 1m ./clockx

# Compare the rows of one run with each other; times of two runs say nothing.
bench:
	go test -run '^$$' -bench . -count 6 ./...
