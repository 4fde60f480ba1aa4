import { catchError, concatMap, debounceTime, EMPTY, from, groupBy, interval, lastValueFrom, map, merge, mergeMap, of, reduce, retry, scan, Subject, take, throwError, timer, toArray, zip } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
console.log(await lastValueFrom(interval(2).pipe(take(5), scan((sum, n) => sum + n, 0), toArray())));
console.log(await lastValueFrom(from(['a', 'bb', 'cc', 'd']).pipe(groupBy((text) => text.length), mergeMap((group) => group.pipe(reduce((all, text) => all + text, `${group.key}:`))), toArray())));
let tries = 0;
console.log(await lastValueFrom(of(1).pipe(mergeMap(() => { tries += 1; return tries < 3 ? throwError(() => new Error('again')) : of('third'); }), retry(5))), tries);
console.log(await lastValueFrom(merge(timer(9).pipe(map(() => 'late')), of('early')).pipe(concatMap((text) => of(text, text.length)), toArray())));
const subject = new Subject(); const heard = [];
subject.pipe(debounceTime(5), catchError(() => EMPTY)).subscribe((value) => heard.push(value));
subject.next(1); subject.next(2); await new Promise((done) => setTimeout(done, 20)); subject.next(3); subject.complete();
console.log(heard, await lastValueFrom(zip(of(1, 2, 3), of('x', 'y')).pipe(toArray())));
new TestScheduler((actual, expected) => console.log(JSON.stringify(actual) === JSON.stringify(expected))).run(({ cold, expectObservable }) => {
  expectObservable(cold('a-b|').pipe(map((text) => text + text))).toBe('x-y|', { x: 'aa', y: 'bb' });
});
