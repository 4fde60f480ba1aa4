import semver from 'semver';
console.log(semver.maxSatisfying(['1.2.3', '1.10.0', '2.0.0-rc.1', '2.0.0'], '^1.2 || >=2.0.0-0 <2.0.0'), semver.inc('1.2.3', 'prerelease', 'beta'), semver.coerce('v3.4 build').version);
console.log(semver.sort(['1.0.0', '1.0.0-alpha.10', '1.0.0-alpha.2', '0.9.9+7']), semver.diff('1.2.3', '2.0.0-1'), semver.validRange('~1.2 - nothing'), semver.minVersion('>1.5').version);
console.log(semver.intersects('^1.2.3', '<1.3'), new semver.Range('1.x || >=2.5.0 || 5.0.0 - 7.2.3').format());
try { new semver.SemVer('x'); } catch (error) { console.log(error.name, error.message); }
console.log(require('semver/functions/gt')('2.0.0', '1.9.9'));
