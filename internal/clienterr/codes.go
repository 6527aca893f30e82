package clienterr

import (
	"slices"
	"strings"
)

// codes are the numbers by which a server says what went wrong.
type codes struct{ transient, throttled, permanent []int32 }

func (c *codes) class(n int64) Class {
	if int64(int32(n)) != n {
		return Unknown
	}
	switch code := int32(n); {
	case slices.Contains(c.transient, code):
		return Transient
	case slices.Contains(c.throttled, code):
		return Throttled
	case slices.Contains(c.permanent, code):
		return Permanent
	}
	return Unknown
}

// names are codes that are words, each class's with a blank between them.
type names struct{ transient, throttled, permanent string }

func (n *names) class(name string) Class {
	switch {
	case contains(n.transient, name):
		return Transient
	case contains(n.throttled, name):
		return Throttled
	case contains(n.permanent, name):
		return Permanent
	}
	return Unknown
}

// contains reports whether word is one of words.
func contains(words, word string) bool {
	if word == "" || strings.IndexByte(word, ' ') >= 0 {
		return false
	}
	for from := 0; ; {
		i := strings.Index(words[from:], word)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(word)
		if (begin == 0 || words[begin-1] == ' ') && (end == len(words) || words[end] == ' ') {
			return true
		}
		from = end
	}
}

// aws are the codes that the AWS SDK for Go takes for throttling, and for failures that
// pass (aws/retry/standard.go), and those of which the services' own lists of errors say
// that the same call may succeed later, without a change. The lists are the models of the
// AWS SDK for Go (models/apis/*/*/docs-2.json of github.com/aws/aws-sdk-go v1.55.8), and
// pages of the services where these say more (S3, EBS, RDS Data API).
//
// A word that says so in one service and something else in another is not here:
// ConflictException, ResourceInUseException, ResourceConflictException,
// ResourceNotReadyException, InvalidResourceStateException, LimitExceededException,
// ConditionalCheckFailedException. Neither are words that ask for another request first
// (WAFOptimisticLockException), or to wait for work of hours (BackupInProgress), nor those
// of which the status says the same: 429, and 5xx.
var aws = names{
	transient: "RequestTimeout RequestTimeoutException TransactionInProgressException PriorRequestNotComplete " +
		// S3, STS, IAM, SNS
		"OperationAborted ConditionalRequestConflict IDPCommunicationError IDPCommunicationErrorException OpenIdIdpCommunicationError " +
		"ConcurrentModification EntityTemporarilyUnmodifiable EntityTemporarilyUnmodifiableException ReportInProgress StaleTag ConcurrentAccess " +
		// Organizations, Cognito, EventBridge and more
		"ConcurrentModificationException FinalizingOrganizationException PolicyChangesInProgressException " +
		// Bedrock, Lambda, DynamoDB, CloudWatch Logs, SQS
		"ModelStreamErrorException SnapStartNotReadyException TransactionConflictException ReplicatedWriteConflictException " +
		"OperationAbortedException QueueDeletedRecently AWS.SimpleQueueService.QueueDeletedRecently " +
		// IAM Identity Center: a device that waits for its user (RFC 8628)
		"AuthorizationPendingException " +
		// RDS, DocumentDB, RDS Data API, Redshift
		"InvalidEventSubscriptionState DatabaseResumingException DependentServiceUnavailableFault InvalidClusterParameterGroupState " +
		"CopyToRegionDisabledFault SnapshotCopyDisabledFault " +
		// Cloud Control, CloudFormation, WorkSpaces, Auto Scaling, EC2, EC2 Instance Connect, EKS
		"ConcurrentOperationException OperationInProgressException ConcurrentUpdateException ConcurrentTagAccess EC2InstanceUnavailableException " +
		"ResourcePropagationDelayException " +
		// CodeCommit, CodeConnections, Config, Cloud Directory, ECR, Systems Manager, Device Farm
		"ConcurrentReferenceUpdateException RetryLatestCommitFailedException ResourceConcurrentModificationException RemediationInProgressException " +
		"RetryableConflictException LifecyclePolicyPreviewInProgressException ResourceDataSyncConflictException TagOperationException " +
		// GameLift
		"FleetCapacityExceededException GameSessionFullException OutOfCapacityException NotReadyException " +
		// Glue, Lake Formation, S3 on Outposts, Route 53 ARC
		"FederationSourceRetryableException OperationTimeoutException StatisticsNotReadyYetException WorkUnitsNotReadyYetException " +
		"OutpostOfflineException EndpointTemporarilyUnavailableException " +
		// WAF
		"WAFTagOperationException WAFUnavailableEntityException WAFServiceLinkedRoleErrorException " +
		// of services that list them without a status
		"InternalErrorException InternalServerException InternalServiceException InternalServiceErrorException " +
		"ServiceTemporarilyUnavailableException ServiceUnavailableException",
	throttled: "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException RequestThrottleException " +
		"TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded RequestLimitExceededException SlowDown " +
		"BandwidthLimitExceeded EC2ThrottledException Throttled RateLimitExceededException RateExceededException SlowDownException " +
		// calls of AWS to others of its services: KMS, EC2
		"KMSThrottling KMSThrottlingException KmsThrottled KmsThrottlingException KMS.ThrottlingException DependencyThrottle " +
		"DependentServiceRequestThrottlingFault " +
		// too many at once: Systems Manager, EBS, Glue, CloudTrail, Redshift Data API
		"TooManyUpdates OpsMetadataTooManyUpdatesException ConcurrentLimitExceededException ConcurrentRunsExceededException " +
		"MaxConcurrentQueriesException ActiveStatementsExceededException",
}

// oauth are error codes of OAuth 2.0: of a token request (RFC 6749, section 5.2; RFC 8707),
// of an authorization (4.1.2.1), and of a device (RFC 8628, section 3.5).
var oauth = names{
	transient: "server_error temporarily_unavailable authorization_pending",
	throttled: "slow_down",
	permanent: "invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type invalid_scope invalid_target " +
		"access_denied unsupported_response_type expired_token",
}

// google are reasons of Google's APIs that say more than their status, which is 403. Those
// of daily limits, quotas and permissions do not.
var google = names{throttled: "rateLimitExceeded userRateLimitExceeded"}

// http3 are codes of HTTP/3 (RFC 9114, section 8.1).
var http3 = codes{
	// internal error, closed critical stream, rejected, canceled, incomplete request, connect error
	transient: []int32{0x102, 0x104, 0x10b, 0x10c, 0x10d, 0x10f},
	throttled: []int32{0x107},        // excessive load
	permanent: []int32{0x10e, 0x110}, // malformed message, use HTTP/1.1
}

// mysql are numbers of MySQL and MariaDB (MySQL's Server Error Message Reference;
// MariaDB's program perror has the same).
var mysql = codes{
	// shutdown, lock wait timeout, deadlock, read-only (three ways), NOWAIT
	transient: []int32{1053, 1205, 1213, 1290, 1792, 1836, 3572},
	// too many connections, of all and of a user; a user's limit
	throttled: []int32{1040, 1203, 1226},
	// access denied (to a database, at all), null, no such database and column,
	// duplicate key, syntax, count of values, table access denied, no such table,
	// too long, foreign key (two ways)
	permanent: []int32{1044, 1045, 1048, 1049, 1054, 1062, 1064, 1136, 1142, 1146, 1406, 1451, 1452},
}

// mssql are numbers of SQL Server ("Database engine events and errors", and
// "Troubleshoot transient connection errors" of Azure SQL).
var mssql = codes{
	// no connection yet, deadlock, lock timeout, snapshot conflict, failover (four ways)
	transient: []int32{233, 1205, 1222, 3960, 4060, 4221, 40197, 40613},
	// memory; limits and load of Azure
	throttled: []int32{701, 10928, 10929, 40501, 49918, 49919, 49920},
	// syntax (two), no such column and object, permission (two), conversion, null,
	// constraint, duplicate key (two), truncation, login
	permanent: []int32{102, 156, 207, 208, 229, 230, 245, 515, 547, 2601, 2627, 8152, 18456},
}

// cassandra are the codes of CQL's binary protocol (native_protocol_v5.spec, section 9).
var cassandra = codes{
	// server error, unavailable, bootstrapping, truncation, timeouts and failures of
	// replicas, an unknown end of a compare-and-set
	transient: []int32{0x0000, 0x1000, 0x1002, 0x1003, 0x1100, 0x1200, 0x1300, 0x1500, 0x1600, 0x1700},
	throttled: []int32{0x1001}, // overloaded
	// protocol, credentials, a function's failure, syntax, unauthorized, invalid,
	// configuration, already exists
	permanent: []int32{0x000A, 0x0100, 0x1400, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400},
}

// clickhouse are codes of ClickHouse (src/Common/ErrorCodes.cpp).
var clickhouse = codes{
	// timeout, socket timeout, network, no ZooKeeper, read-only table, too few replicas,
	// quorum, unknown status of an insert, Keeper
	transient: []int32{159, 209, 210, 225, 242, 285, 286, 319, 999},
	throttled: []int32{202, 241, 252}, // queries, memory, parts
	// unknown identifier, type mismatch, table exists, unknown table, syntax, unknown
	// database, read-only, user and password (three ways), access denied, authentication
	permanent: []int32{47, 53, 57, 60, 62, 81, 164, 192, 193, 194, 497, 516},
}

// mongo are codes of MongoDB (src/mongo/base/error_codes.yml; 11001 and 12582 stand
// in the driver, as those of old servers for a duplicate key).
var mongo = codes{
	// host unreachable and not found, MaxTimeMS, network timeout, shutdown, write
	// conflict, no majority yet, stepped down, time limit, socket, no primary, interrupted
	// (two), no primary (two)
	transient: []int32{6, 7, 50, 89, 91, 112, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436},
	// bad value, parse, user not found, unauthorized, type mismatch, authentication,
	// illegal operation, namespace not found, conflicting operators, namespace exists,
	// no such command, immutable field, indexes, options, namespace, indexes (two), not
	// supported, validation, duplicate key (three)
	permanent: []int32{2, 9, 11, 13, 14, 18, 20, 26, 40, 48, 59, 66, 67, 68, 72, 73, 85, 86, 115, 121, 11000, 11001, 12582},
}

// amqp are reply codes of AMQP 0-9-1 (section 1.2).
var amqp = codes{
	// no consumers, connection forced, resource locked, frame and channel error, internal error
	transient: []int32{313, 320, 405, 501, 504, 541},
	throttled: []int32{506}, // resource error
	permanent: []int32{311, 312, 402, 403, 404, 406, 502, 503, 505, 530, 540},
}

// ldap are result codes of LDAP (RFC 4511, appendix A; 81, 85 and 91 are the client's,
// 200 is go-ldap's for the network).
var ldap = codes{
	// time limit, busy, unavailable, server down, timeout, connect
	transient: []int32{3, 51, 52, 81, 85, 91, 200},
	// no such object, DN syntax, authentication and rights, unwilling, naming, classes,
	// exists, too large
	permanent: []int32{32, 34, 48, 49, 50, 53, 64, 65, 66, 67, 68, 69, 70, 71},
}

// sftp are status codes of SFTP (draft-ietf-secsh-filexfer-02, section 7).
var sftp = codes{
	transient: []int32{6, 7},       // no connection, connection lost
	permanent: []int32{2, 3, 5, 8}, // no such file, permission, bad message, unsupported
}

// websocket are codes with which a WebSocket is closed (RFC 6455, section 7.4, and
// IANA's registry).
var websocket = codes{
	// going away, abnormal, internal error, restart, bad gateway
	transient: []int32{1001, 1006, 1011, 1012, 1014},
	throttled: []int32{1013}, // try again later
	// protocol, data (two), policy, too big, extension, TLS
	permanent: []int32{1002, 1003, 1007, 1008, 1009, 1010, 1015},
}

// redis are the first words of errors from Redis and Valkey: by RESP they are codes.
var redis = names{
	transient: "LOADING READONLY CLUSTERDOWN TRYAGAIN MASTERDOWN NOREPLICAS BUSY MOVED ASK MISCONF IOERR INPROG",
	throttled: "OOM",
	permanent: "WRONGTYPE NOAUTH WRONGPASS NOPERM NOSCRIPT CROSSSLOT BUSYGROUP BUSYKEY NOGROUP NOPROTO DENIED NOTBUSY UNKILLABLE",
}

// kafka are the codes of Kafka that package kerr of franz-go calls retriable, and
// REBALANCE_IN_PROGRESS, CONCURRENT_TRANSACTIONS and REASSIGNMENT_IN_PROGRESS.
var kafka = codes{
	transient: []int32{2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 27, 41, 51, 56, 60, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88,
		100, 103, 106, 133},
	throttled: []int32{89}, // THROTTLING_QUOTA_EXCEEDED
}

// kafkaNewest is the greatest code that kafka knows of. All up to it that are not in the table are
// Permanent.
const kafkaNewest = 136

var prometheus = names{transient: "timeout server_error", permanent: "bad_data execution"}

// kubernetes are reasons that say more than their status, which is 409: client-go's
// RetryOnConflict repeats the first.
var kubernetes = names{transient: "Conflict", permanent: "AlreadyExists"}

var openai = names{permanent: "insufficient_quota"} // the one 429 that no wait cures
