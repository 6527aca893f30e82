.PHONY: check gate ci night api oracles page pictures fuzz mutate bench table tail release rehearse

# Says within a minute whether a change is fine so far: tests what it may break.
check:
	.ci/check

# What a change must pass before it is merged.
gate:
	.ci/gate

# What CI runs for each change: the gate, and tests on servers, in a browser and with all clients.
ci:
	.ci/run

# What CI runs at night too: simulations, the lowest versions, other systems.
night:
	.ci/night

# Writes down the exported API after a change of it.
api:
	go run ./tools/api >api.txt

# Writes the tables of vendors' codes anew from their sources that are Go modules, and then
# the library's. Read the difference before you commit it.
oracles:
	cd clienttest && GOWORK=off go run ./oracle/sources
	go generate ./internal/clienterr

# Writes the page of retrysim serve as static files, for any web server: make page PAGE=folder
page: PAGE ?= playground
page:
	mkdir -p "$(PAGE)"
	cp retrysim/page/*.* "$$(go env GOROOT)/lib/wasm/wasm_exec.js" "$(PAGE)"
	cp retrysim/page/static/* "$(PAGE)"
	GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$(PAGE)/retrysim.wasm" ./retrysim

# Draws the pictures of the pages anew, but for bench/live.svg and docs/trace.png, which show
# single runs. Needs Debian's chromium.
pictures:
	RETRY_LONG=1 go test -count=1 -run TestCheckedInOutput ./retrysim -update
	go run ./dashboards/picture
	d=$$(mktemp -d) && go test -count=1 -run 'TestPage$$' ./servertest/debugpage -pictures "$$d" && cp "$$d/debug-light.png" docs/debug.png && rm -r "$$d"

# Half an hour of fuzzing; what it finds lands in testdata.
fuzz:
	go test -run '^$$' -fuzz FuzzBackoffs -fuzztime 3m .
	go test -run '^$$' -fuzz FuzzBudgets -fuzztime 3m ./budget
	go test -run '^$$' -fuzz FuzzEarnedBudget -fuzztime 2m .
	go test -run '^$$' -fuzz FuzzErrorTrees -fuzztime 3m .
	go test -run '^$$' -fuzz FuzzAfter -fuzztime 1m ./retryqueue
	go test -run '^$$' -fuzz FuzzMark -fuzztime 1m ./retrykafka
	go test -run '^$$' -fuzz FuzzHeaders -fuzztime 1m ./retrykafka
	go test -run '^$$' -fuzz FuzzVirtual -fuzztime 1m ./clockx
	go test -run '^$$' -fuzz FuzzParseRetryAfter -fuzztime 3m ./retryhttp
	for f in Date JSON Number Quota; do go test -run '^$$' -fuzz "Fuzz$$f\$$" -fuzztime 30s ./internal/hint || exit; done
	go test -run '^$$' -fuzz FuzzUnlisted -fuzztime 1m ./internal/clienterr
	go test -run '^$$' -fuzz FuzzClassify -fuzztime 1m ./retrysql
	go test -run '^$$' -fuzz FuzzHealth -fuzztime 2m ./internal/health
	go test -run '^$$' -fuzz FuzzEstimate -fuzztime 1m ./internal/hedging
	go test -run '^$$' -fuzz FuzzReplacements -fuzztime 1m ./errtext
	go test -run '^$$' -fuzz FuzzSecrets -fuzztime 2m ./errtext
	go test -run '^$$' -fuzz FuzzLine -fuzztime 1m ./retrydebug
	go test -run '^$$' -fuzz FuzzDownload -fuzztime 1m ./retryhttp
	go test -run '^$$' -fuzz FuzzPushback -fuzztime 1m ./retrygrpc
	go test -run '^$$' -fuzz FuzzGRPC -fuzztime 1m ./budget
	go test -run '^$$' -fuzz FuzzParsePolicy -fuzztime 3m ./retryconf
	go test -run '^$$' -fuzz FuzzReadLink -fuzztime 1m ./retrysim
	go test -run '^$$' -fuzz FuzzFormatPolicy -fuzztime 3m ./retryconf

# Says which changes of these packages no test notices, in half an hour on two cores.
mutate:
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retry.txt -tests internal/model .
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-budget.txt budget
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retrytest.txt retrytest
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retrysql.txt retrysql
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retryqueue.txt retryqueue
	go run ./tools/mutate -min 95 -known tools/mutate/equivalent-retrykafka.txt -skip 'Kill|APanic' -tests servertest/kafka retrykafka
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retrynats.txt retrynats
	go run ./tools/mutate -min 98 limit
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retryhttp.txt -files limit.go,guarded.go,evidence.go,hedge.go,bodyhint.go,event.go,hint.go,peek.go retryhttp
	go run ./tools/mutate -min 98 -files limit.go,hold.go retrygrpc
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-clockx.txt clockx
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retrybatch.txt retrybatch
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-retryconf.txt retryconf
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-hint.txt -tests retryhttp internal/hint
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-errtext.txt -skip 'Alloc|Leak|TimeDoesNot' errtext
	go run ./tools/mutate -min 98 hedge
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-hedging.txt -tests hedge internal/hedging
	go run ./tools/mutate -min 98 -known tools/mutate/equivalent-errtree.txt internal/errtree
	go run ./tools/mutate -min 98 -tests breaker -known tools/mutate/equivalent-health.txt internal/health
	go run ./tools/mutate -min 98 -skip 'Parallel|Alloc' breaker
	go run ./tools/mutate -min 87 -skip 'FirstIsIll|NoWorse|Keys|Stray|TestRace|Example|Alloc' failover # mostly a nanosecond that nobody sees
	go run ./tools/mutate -min 98 internal/keyed
	go run ./tools/mutate -min 79 -known tools/mutate/equivalent-pacing.txt -tests pace -skip 'RandomRuns|UnderContention|AThirdIsRefused|EqualMembers|DeadlinesBeside|LosesNoTurn|Example|Alloc' internal/pacing # a store's answers hide many

# Makes a release up to its tags: make release VERSION=v0.2.0
release:
	go run ./tools/release $(VERSION)

# Makes the next release in a clone, and uses the modules as strangers do.
rehearse:
	go run ./tools/release -rehearse

# Compare the rows of one run with each other; times of two runs say nothing.
bench:
	go test -run '^$$' -bench . -count 6 ./...

# Writes bench/RESULTS.md and bench/BEHAVIOUR.md, in some minutes of
# an otherwise idle machine.
table:
	go run ./bench/cmd/table

# Writes bench/TAIL.md, in seven minutes of an otherwise idle machine.
tail:
	go run ./bench/cmd/table -tail
