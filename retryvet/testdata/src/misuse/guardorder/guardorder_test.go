package guardorder

import "github.com/goretry/retry"

var shows = retry.Policy{Guards: []retry.Guard{places, &model}}
